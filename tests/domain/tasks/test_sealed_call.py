"""What keeps an approved call from running as something else: each attack, with its guard and without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from taskhub.core.asking import Asking
from taskhub.core.errors import Refused
from taskhub.core.records import Actor
from taskhub.core.rules import Preview, Rule, Then, Verdict
from taskhub.core.states import Door
from taskhub.core.versions import DECIDED_ONLY
from taskhub.domain.questions.answer import AnswerOutcome, EditOutcome, decide_approval
from taskhub.domain.questions.previews import failed
from taskhub.domain.rules.bypasses import begin_bypass, end_bypass
from taskhub.domain.rules.decisions import Rules
from taskhub.domain.rules.reads import present
from taskhub.domain.tasks import edits, previews, recheck
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.previews import Compared
from taskhub.store.models import AuthContext, Bypass, Membership, Server, Task, Tool
from tests.domain import kit
from tests.domain.kit import World
from tests.domain.tasks.mutants import Mutant, cut
from tests.domain.tasks.test_decided_again import create, of_person, save
from tests.factories import WORKER

pytestmark = pytest.mark.django_db

ADA = Actor(name="ada", door=Door.WEB)
ASK = Rule(name="asks", when="", then=Then.ASK, group="ops", editable=("text",))
DENY = Rule(name="denies", when="", then=Then.DENY)
SHOWS = replace(ASK, preview=Preview(tool="plan"))
OTHER = {"text": "bye"}


def approved(rule: Rule = ASK) -> tuple[World, int]:
    """A call that people have approved, and no worker has taken."""
    world = kit.make_world()
    save(world, rule)
    task = create(world).id
    decide_approval(task, kit.opened(task), approve=True, actor=kit.approver(task))
    return world, task


def let_through() -> tuple[World, int]:
    """A call about which nobody was asked, as rules let it through."""
    world = kit.make_world()
    save(world, Rule(name="allows", when="", then=Then.ALLOW))
    return world, create(world).id


def titled() -> tuple[World, int]:
    """A call that was let through because of the title of its tool."""
    world = kit.make_world()
    save(world, Rule(name="no deletes", when='tool.title == "Delete"', then=Then.DENY))
    return world, create(world).id


def becomes_delete(world: World, _: int) -> None:
    definition = {**world.tool.definition, "title": "Delete"}
    Tool.objects.filter(pk=world.tool.id).update(definition=definition, digest="1" * 64)


def of_somebody() -> tuple[World, int]:
    """A call that was let through because of the group of the person who signed in its application."""
    world = of_person("hr")
    save(world, Rule(name="hr only", when='!("hr" in person.groups)', then=Then.DENY))
    return world, create(world).id


def let_pass() -> tuple[World, int]:
    """A call that a bypass let pass."""
    world = kit.make_world()
    save(world, ASK)
    begin_bypass(world.context.tenant_id, minutes=30, reason="Outage", actor=ADA)
    rules = Rules(present(world.context.tenant_id))
    asked = recheck.decide(Task.objects.select_related("context").get(pk=create(world).id), world.tool, rules)
    return world, kit.create(world, verdict=rules.let_pass(asked, world.tool)).id


def execute(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def server(**columns: Any) -> Callable[[World, int], object]:
    return lambda world, _: Server.objects.filter(pk=world.tool.server_id).update(**columns)


def tool(**columns: Any) -> Callable[[World, int], object]:
    return lambda world, _: Tool.objects.filter(pk=world.tool.id).update(**columns)


def task(change: str) -> Callable[[World, int], object]:
    return lambda _, task_id: execute(f"UPDATE task SET {change} WHERE id = %s", task_id)


def question(change: str) -> Callable[[World, int], object]:
    return lambda _, task_id: execute(f"UPDATE question SET {change} WHERE task_id = %s", task_id)


def rules(*listed: Rule) -> Callable[[World, int], object]:
    return lambda world, _: save(world, *listed)


def bypass_ends(world: World, _: int) -> None:
    end_bypass(world.context.tenant_id, Bypass.objects.get(tenant=world.context.tenant).pk, actor=ADA)


def digest_without(part: str) -> Mutant:
    return Mutant("th_call_digest", rf"{part}, ")


def unfit_without(part: str, put: str = "") -> Mutant:
    return Mutant("th_unfit", part, put)


TASK_STAYS = Mutant(
    "task_guard", r"OR NEW\.arguments::text.*?OR NEW\.answers IS DISTINCT FROM OLD\.answers", ""
)  # fmt: skip
QUESTION_STAYS = Mutant("question_guard", r"IF OLD\.state <> 'open' AND NOT.*?THEN", "IF false THEN")
OUTDATED = unfit_without(r"ELSE a\.outdated OR a\.changed OR a\.left_alone END", "ELSE a.changed OR a.left_alone END")


@dataclass(frozen=True)
class Attack:
    """What happens to a call that waits for a worker, and the guard without which it then runs. `past`: guards before
    this one, which are switched off in both cases."""

    before: Callable[[], tuple[World, int]]
    happens: Callable[[World, int], object]
    guard: tuple[Mutant, ...]
    past: tuple[Mutant, ...] = ()


ATTACKS: dict[str, Attack] = {
    "other arguments": Attack(
        approved, task("arguments = '{\"text\": \"x\"}'"), (digest_without(r"t\.arguments::text"),), (TASK_STAYS,)
    ),
    "other answers": Attack(
        approved, task("answers = '{\"a\": {}}'"), (digest_without(r"t\.answers"),), (TASK_STAYS,)
    ),
    "another address": Attack(approved, server(target="http://x.example/mcp"), (digest_without(r"s\.target"),)),
    "another secret address": Attack(
        approved, server(sealed_target=b"x"), (digest_without(r"encode\(s\.sealed_target, 'hex'\)"),)
    ),
    "another directory": Attack(
        approved,
        server(transport="stdio", directory="/x"),
        (digest_without(r"s\.directory"), digest_without(r"s\.transport")),
    ),
    "another rule": Attack(
        approved,
        question("params = (params::jsonb || '{\"x\": 1}')::json"),
        (digest_without("p_params::text"),),
        (QUESTION_STAYS,),
    ),
    "another group": Attack(
        approved, question('"group" = \'\''), (digest_without("p_group"),), (QUESTION_STAYS,)
    ),
    "a lower quorum": Attack(
        approved,
        question("quorum = 0"),
        (Mutant("th_call_digest", r", p_quorum\)::text", ")::text"),),
        (QUESTION_STAYS,),
    ),
    "another definition": Attack(approved, tool(digest="1" * 64), (OUTDATED, digest_without(r"o\.digest"))),
    "another definition, and a rule that denies it": Attack(
        titled, becomes_delete, (Mutant("th_to_decide", r"OR latest > 0 AND seen.*?'hex'\)"),)
    ),
    "an approver without the role": Attack(
        approved,
        lambda *_: Membership.objects.update(role="viewer"),
        (unfit_without(r"NOT th_still_approved\(q\)", "false"),),
    ),
    "a client that is locked out": Attack(
        approved,
        lambda world, _: AuthContext.objects.filter(pk=world.context.pk).update(disabled_at=datetime.now(UTC)),
        (Mutant("th_why_not", r"c\.disabled_at IS NULL END", "true END"),),
    ),
    "a tool that is off": Attack(
        approved, tool(enabled=False), (Mutant("th_why_not", r"WHEN NOT o\.enabled THEN 'tool_turned_off'"),)
    ),
    "a tool that is rejected": Attack(
        approved, tool(rejected="x"), (Mutant("th_why_not", r"WHEN o\.rejected <> '' THEN 'tool_rejected'"),)
    ),
    "a tool that is gone": Attack(approved, tool(gone_at=datetime.now(UTC)), (unfit_without(r"OR may\.gone"),)),
    "a tool that nobody has confirmed": Attack(
        let_through,
        lambda world, _: (server(review=True)(world, 0), tool(confirmed_digest="")(world, 0)),
        (Mutant("th_unconfirmed", r"s\.review AND o\.confirmed_digest <> o\.digest", "false"),),
    ),
    "a server that is removed": Attack(
        let_through,
        server(removed_at=datetime.now(UTC), enabled=False, state="disabled"),
        (Mutant("th_why_not", r"WHEN s\.removed_at IS NOT NULL THEN 'server_removed'\s+WHEN", "WHEN"),),
    ),
    "a rule that denies": Attack(
        approved, rules(DENY), (Mutant("th_to_decide", r"coalesce\(\(decided ->> 'version'\)[^;]*?latest OR"),)
    ),
    "a rule that asks": Attack(
        let_through, rules(ASK), (Mutant("th_to_decide", r"coalesce\(\(decided ->> 'version'\)[^;]*?latest OR"),)
    ),
    "a person who left the group": Attack(
        of_somebody,
        lambda *_: Membership.objects.update(groups=[]),
        (Mutant("th_to_decide", r"OR coalesce\(decided \? 'person'.*?c\.id = client\)"),),
    ),
    "a bypass that is over": Attack(
        let_pass, bypass_ends, (Mutant("th_to_decide", r"OR coalesce\(decided \? 'bypass'.*?clock_timestamp\(\)\)"),)
    ),
    "a bypass that is over and not noted": Attack(
        let_pass,
        lambda world, _: execute(
            "UPDATE bypass SET began_at = began_at - interval '1 d', ends_at = ends_at - interval '1 d'"
            " WHERE tenant_id = %s", world.context.tenant_id,
        ),
        (Mutant("th_to_decide", r"AND b\.ends_at > clock_timestamp\(\)"),),
        (Mutant("bypass_guard", r"IF OLD\.ended_at IS NOT NULL.*?END IF;\s+NEW\.ended_at := .*?;"),),
    ),
}  # fmt: skip


def runs(attack: Attack) -> bool:
    world, task_id = attack.before()
    attack.happens(world, task_id)
    return task_id in {claim.task_id for claim in kit.claim(limit=50)}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_changed_since_does_not_run_and_would_without_its_guard(name: str) -> None:
    attack = ATTACKS[name]
    with cut(*attack.past):
        assert not runs(attack)
    with cut(*attack.past, *attack.guard):
        assert runs(attack)


# --- a cancellation, and a preview that runs again


def cancelled_on_the_way() -> bool:
    """Whether a call runs that a rule asks about by now, and that is cancelled between its claim and that decision."""
    world, task_id = let_through()
    save(world, ASK)
    decided = recheck.decide

    def cancel_first(*given: Any) -> Any:
        request_cancel(task_id, actor=world.actor)
        return decided(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recheck, "decide", cancel_first)
        return task_id in {claim.task_id for claim in kit.claim(limit=50)}


def shown(happens: Callable[[World, int], object], problem: str = "away") -> Compared:
    """What comes of the second call of a preview, if this happens between the claim and its answer."""
    world = kit.make_world()
    save(world, SHOWS)
    task_id = create(world).id
    for call in previews.take_previews("worker-1", most=50):
        previews.end_preview(call, failed(call.problem), actor=WORKER)
    decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id))
    (claim,) = [claim for claim in kit.claim(limit=50) if claim.task_id == task_id]
    approved = previews.approved_preview(task_id)
    assert approved is not None
    happens(world, task_id)
    answer = failed(problem) if problem else replace(failed(""), digest="1" * 64, text="other")
    return previews.compare_preview(approved, claim, answer, actor=WORKER)


def nothing(*_: Any) -> None:
    pass


def begun_while_it_runs() -> AnswerOutcome:
    """An approval of a call whose preview has not ended."""
    world = kit.make_world()
    save(world, SHOWS)
    task_id = create(world).id
    return decide_approval(task_id, kit.opened(task_id), approve=True, actor=kit.approver(task_id))


# --- edits


def edit(
    happens: Callable[[World, int, Actor], object] = nothing, by: Callable[[int], Actor] = kit.approver, **given: Any
) -> EditOutcome:
    """What comes of an edit, if this happens after somebody has looked at it."""
    world = kit.make_world()
    Tool.objects.filter(pk=world.tool.id).update(definition={"name": "t", "inputSchema": {"properties": {"text": {}}}})
    save(world, replace(ASK, quorum=2))
    task_id = create(world).id if not given else kit.create(world, verdict=_asks(world), **given).id
    asked, actor = kit.opened(task_id), by(task_id)
    proposed = edits.proposal(task_id, asked, OTHER, by="x")
    happens(world, task_id, actor)
    return edits.edit_call(task_id, asked, proposed, votes=True, actor=actor)


def _asks(world: World) -> Verdict:
    (rule,) = present(world.context.tenant_id).rules
    return Verdict(Then.ASK, rule, 1)


def edit_of_a_permit() -> EditOutcome:
    """As a program would that does not look at what the question says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Asking, "may_edit", lambda *_: True)
        return edit(revision=DECIDED_ONLY, permit_seconds=60)


def votes(_: World, task_id: int, actor: Actor) -> None:
    decide_approval(task_id, kit.opened(task_id), approve=True, actor=actor)


def got_rights(_: World, __: int, actor: Actor) -> None:
    execute("UPDATE membership SET granted_at = clock_timestamp() WHERE user_id = %s", actor.user_id)


def moves(world: World, *_: Any) -> None:
    server(target="http://x.example/mcp")(world, 0)


HELD_BACK: dict[str, tuple[Callable[[], Any], Any, Any, tuple[Mutant, ...]]] = {
    "a cancellation before the rules have decided again": (
        cancelled_on_the_way,
        False,
        True,
        (
            Mutant(
                "decide_again",
                r"IF p_approval IS NULL AND p_refusal IS NULL THEN",
                "IF held.cancel_requested_at IS NOT NULL OR p_approval IS NULL AND p_refusal IS NULL THEN",
            ),
        ),
    ),
    "a preview that shows something else": (
        lambda: shown(nothing, ""),
        Compared.CHANGED,
        Compared.SAME,
        (Mutant("compare_preview", r"asked\.digest = decode\(p_digest, 'hex'\)", "true"),),
    ),
    "a rule that denies while the preview runs again": (
        lambda: shown(rules(DENY)),
        Compared.LOST,
        Compared.SAME,
        (Mutant("compare_preview", r"NOT held\.outdated AND"),),
    ),
    "a tool that is turned off while the preview runs again": (
        lambda: shown(tool(enabled=False)),
        Compared.LOST,
        Compared.SAME,
        (Mutant("compare_preview", r"AND NOT EXISTS \(SELECT FROM th_unfit\(ARRAY\[p_id\]\)\)"),),
    ),
    "an approval while the preview runs": (
        begun_while_it_runs,
        AnswerOutcome.PREVIEWING,
        AnswerOutcome.ANSWERED,
        (
            Mutant("answer", r"IF asked\.previewing AND p_verdict = 'approve' THEN.*?END IF;"),
            Mutant("decision_sees_preview", r"IF FOUND AND \(.*?THEN", "IF false THEN"),
        ),
    ),
    "an edit by somebody who has voted": (
        lambda: edit(votes),
        EditOutcome.TWICE,
        EditOutcome.COUNTED,
        (Mutant("edit_call", r"IF th_voted\(.*?END IF;"),),
    ),
    "an edit by somebody who got their rights since": (
        lambda: edit(got_rights),
        EditOutcome.BARRED,
        EditOutcome.PROPOSED,
        (Mutant("edit_call", r"IF th_barred\(.*?END IF;"),),
    ),
    "an edit that is approved by somebody who got their rights since": (
        lambda: edit(got_rights),
        EditOutcome.BARRED,
        EditOutcome.COUNTED,
        (Mutant("edit_call", r"IF th_barred\(.*?END IF;"), Mutant("answer", r"IF th_barred\(.*?END IF;")),
    ),
    "an edit of a call whose server moved": (
        lambda: edit(moves),
        EditOutcome.CHANGED,
        EditOutcome.COUNTED,
        (Mutant("edit_call", r"IF asked\.call_digest IS DISTINCT FROM.*?END IF;"),),
    ),
    "an edit of a call that its client makes itself": (
        edit_of_a_permit,
        EditOutcome.UNKNOWN,
        EditOutcome.COUNTED,
        (Mutant("edit_call", r"OR owner\.revision = 'approvals'"),),
    ),
}


@pytest.mark.parametrize("name", HELD_BACK)
def test_what_people_and_workers_do_is_held_back_and_would_not_be_without_its_guard(name: str) -> None:
    attack, held, without, guard = HELD_BACK[name]
    assert attack() == held
    with cut(*guard):
        assert attack() == without


def test_an_edit_after_the_last_vote_meets_three_guards() -> None:
    """Between the last vote and the claim, an edit would change what runs."""

    def approves(_: World, task_id: int, actor: Actor) -> None:
        for one in (actor, kit.approver(task_id)):
            decide_approval(task_id, kit.opened(task_id), approve=True, actor=one)

    late = Mutant("edit_call", r"IF asked\.state <> 'open' THEN.*?END IF;")
    twice = Mutant("edit_call", r"IF th_voted\(.*?END IF;")
    assert edit(approves) is EditOutcome.LATE
    with cut(late), transaction.atomic():
        assert edit(approves) is EditOutcome.TWICE
    with cut(late, twice), pytest.raises(Refused, match="stays as it is"), transaction.atomic():
        edit(approves)


LONGER = "UPDATE bypass SET ended_at = ends_at, ends_at = ends_at + interval '1 hour' WHERE tenant_id = %s"
BYPASSES: dict[str, tuple[str, tuple[Mutant, ...]]] = {
    "made longer": (LONGER, (Mutant("bypass_guard", r"OR to_jsonb\(NEW\).*?'ended_at'\s+(?=THEN)"),)),
    "taken away": (
        "DELETE FROM bypass WHERE tenant_id = %s",
        (
            Mutant(
                "bypass_guard", r"IF TG_OP = 'DELETE' THEN.*?END IF;", "IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;"
            ),
        ),
    ),
    "given another reason": (
        "UPDATE bypass SET ended_at = ends_at, reason = 'Nothing' WHERE tenant_id = %s",
        (Mutant("bypass_guard", r"OR to_jsonb\(NEW\).*?'ended_at'\s+(?=THEN)"),),
    ),
}


@pytest.mark.parametrize("name", BYPASSES)
def test_a_bypass_is_not_changed_and_would_be_without_its_guard(name: str) -> None:
    statement, guard = BYPASSES[name]
    world, _ = let_pass()
    with pytest.raises(DatabaseError), transaction.atomic():
        execute(statement, world.context.tenant_id)
    with cut(*guard):
        execute(statement, world.context.tenant_id)


def test_a_bypass_lasts_a_day_at_most() -> None:
    world = kit.make_world()
    too_long = datetime.now(UTC) + timedelta(days=2)
    with pytest.raises(DatabaseError, match="bypass_is_short"), transaction.atomic():
        Bypass.objects.create(tenant=world.context.tenant, reason="x", made_by="x", ends_at=too_long)
