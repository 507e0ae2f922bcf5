"""Each way of a call that people decide, from the agent's `tools/call` to the result that it reads, over the wire and
by the pages of the console; and what the audit log then has of it, in order, with who did it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.support.client import FORMS, TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import rules_in_force
from tests.support.session import SessionClient
from tests.support.web import Web, web

pytestmark = pytest.mark.processes

TOOL: Final = "slow_compute"
DECIDERS: Final = "deciders"
LEADS: Final = "leads"


def rule(label: str, then: str = "ask", **says: Any) -> dict[str, Any]:
    """What happens to calls with this label."""
    return {"name": label, "when": f"tool.name == '{TOOL}' && args.label == '{label}'", "then": then, **says}


IN_TIME: Final = {"group": DECIDERS, "expires_minutes": 30}
RULES: Final = (
    rule("plain", group=DECIDERS),
    rule("undone"),
    rule("two", group=DECIDERS, quorum=2),
    rule("others", not_requester=True),
    rule("else denied", **IN_TIME),
    rule("else allowed", **IN_TIME, otherwise="allow"),
    rule("else leads", **IN_TIME, otherwise="escalate", escalate_to=LEADS),
    rule("else leads, then nobody", **IN_TIME, otherwise="escalate", escalate_to=LEADS),
    rule("reminded", **IN_TIME, remind_minutes=10),
    rule("edited", group=DECIDERS, editable=["label"]),
    rule("never", "deny", words="Not on this machine."),
    rule("on trial", "deny", words="Not on this machine.", shadow=True),
)
UNATTENDED: Final = {
    "else denied": 31,
    "else allowed": 31,
    "else leads": 31,
    "else leads, then nobody": 31,
    "reminded": 11,
}
"""Minutes that go by before anybody looks at calls with these labels."""
BEGUN: Final = ["task.created by the agent", "question.asked by the agent"]
"""Every call begins so that people are asked about."""
RUN: Final = ["task.claimed by the worker", "task.finished by the worker"]


class Team:
    """Ann, ben and cy, who decide together; dora, who belongs to no group; lea, who is asked after them; and rita, an
    admin."""

    def __init__(self, hub: RunningHub, stack: ExitStack) -> None:
        self.hub, self._stack = hub, stack
        self.ann, self.ben, self.cy = (self._add(name, "approver", DECIDERS) for name in ("ann", "ben", "cy"))
        self.dora, self.lea = self._add("dora", "approver"), self._add("lea", "approver", LEADS)
        self.rita = self._add("rita", "admin")

    def _add(self, name: str, role: str, *groups: str) -> Person:
        password = self.hub.person("add", name, "--role", role, *(f"--group={group}" for group in groups))
        self._stack.callback(self.hub.person, "remove", name)
        self.hub.sql(
            "UPDATE membership SET password_due = false FROM auth_user u WHERE u.id = user_id AND username = %s", [name]
        )
        return self._stack.enter_context(Person(self.hub, name, password=password))


@pytest.fixture(scope="module")
def team(hub: RunningHub) -> Iterator[Team]:
    with ExitStack() as stack:
        made = Team(hub, stack)
        stack.enter_context(rules_in_force(hub, *RULES))
        yield made


@pytest.fixture(scope="module")
def patient(hub: RunningHub) -> Iterator[Web]:
    """A web process where decisions can be undone, and programs register themselves."""
    with web(hub, TASKHUB_UNDO_SECONDS="60", TASKHUB_OAUTH_REGISTRATION="True") as running:
        yield running


@pytest.fixture(scope="module")
def agent(hub: RunningHub) -> Iterator[Client]:
    with Client(hub.base, hub.token("journeys")) as client:
        yield client


@pytest.fixture(scope="module")
def unattended(hub: RunningHub, team: Team, agent: Client) -> dict[str, str]:
    """Calls by their labels that nobody looked at while the time of `UNATTENDED` went by: all at once, since a worker
    looks at what is due every few seconds."""
    made = {label: call(agent, label) for label in UNATTENDED}
    for label, task in made.items():
        goes_by(hub, task, UNATTENDED[label])
    return made


# What an agent, a person and an auditor see


def call(agent: Client, label: str) -> str:
    """The task of a call with this label."""
    return agent.create(TOOL, {"seconds": 0, "label": label}, caps=TASKS)


def called(hub: RunningHub, agent: Client, label: str) -> str:
    """The task of a call with this label that nobody is asked about."""
    assert agent.tool(TOOL, {"seconds": 0, "label": label}, caps=TASKS).text == f"Computed {label} in 0 s"
    ((task,),) = hub.sql(
        "SELECT t.public_id FROM task t JOIN auth_context c ON c.id = t.context_id WHERE c.name = 'journeys'"
        " ORDER BY t.id DESC LIMIT 1"
    )
    return str(task)


def asked(hub: RunningHub, task: str) -> int:
    """The question that waits for people."""
    ((found,),) = hub.sql(
        "SELECT q.id FROM question q JOIN task t ON t.id = q.task_id WHERE t.public_id = %s AND q.state = 'open'"
        " AND q.kind = 'approval'",
        [task],
    )
    return int(found)


def status(agent: Client, task: str) -> str:
    """What its agent is told while the call waits."""
    found = agent.get(task).result
    assert found["status"] == "working"
    return str(found["statusMessage"])


def result(agent: Client, task: str) -> tuple[str, bool]:
    """What the agent reads in the end, and whether it is an error."""
    found = agent.until(task, "completed")["result"]
    return "\n".join(block["text"] for block in found["content"]), found.get("isError", False)


def goes_by(hub: RunningHub, task: str, minutes: int) -> None:
    """So much of the time that people have to decide."""
    gone = timedelta(minutes=minutes)
    hub.sql(
        "UPDATE question SET due_at = due_at - %s, remind_at = remind_at - %s FROM task t"
        " WHERE t.id = task_id AND public_id = %s AND question.state = 'open'",
        [gone, gone, task],
    )


def events(hub: RunningHub, task: str) -> list[str]:
    """What the log has of the task, oldest first, and who did it."""
    found = hub.sql(
        "SELECT e.action, CASE e.door WHEN 'client' THEN 'the agent' WHEN 'worker' THEN 'the worker' ELSE e.actor END"
        " FROM event e JOIN task t ON t.id = e.task_id WHERE t.public_id = %s ORDER BY e.id",
        [task],
    )
    return [f"{action} by {who}" for action, who in found]


def happened(hub: RunningHub, task: str, event: str) -> None:
    wait_until(lambda: event in events(hub, task), f"{event}, not only {events(hub, task)}", 20)


def noted(hub: RunningHub, action: str, what: dict[str, Any]) -> None:
    """The log has this of the agent's calls of the tool, besides what it has of tasks."""
    found = "SELECT 1 FROM event WHERE action = %s AND target = %s AND after @> %s::jsonb AND actor = 'journeys'"
    wait_until(lambda: hub.sql(found, [action, TOOL, json.dumps(what)]), action)


# The journeys


def test_two_of_three_approve(hub: RunningHub, team: Team) -> None:
    with SessionClient(hub.base, hub.token("journeys")) as session:
        task = session.create(TOOL, {"seconds": 0, "label": "two"})
        question = asked(hub, task)
        team.ann.decide(question)
        assert session.get(task).result["statusMessage"] == "Waiting for approval by deciders, 1 of 2"
        assert 'value="approve"' not in team.ann.read(f"/inbox/{question}/"), "she has had her vote"
        team.cy.decide(question)
        told = session.call("tasks/result", {"taskId": task}).result
    assert told["content"] == [{"type": "text", "text": "Computed two in 0 s"}]
    assert events(hub, task) == [
        *BEGUN,
        "question.approve by ann",
        "question.approve by cy",
        "task.answered by cy",
        *RUN,
    ]


def test_who_made_the_call_does_not_decide_it(hub: RunningHub, patient: Web, team: Team) -> None:
    with Person(hub, "admin", patient.base) as requester:
        with Client(patient.base, requester.program("journeys")) as own:
            task = call(own, "others")
            question = asked(hub, task)
            assert "You made this call" in requester.read(f"/inbox/{question}/")
            assert 'value="approve"' not in requester.read(f"/inbox/{question}/")
            team.ben.decide(question)
            assert result(own, task) == ("Computed others in 0 s", False)
        requester.end_access()
    assert events(hub, task) == [*BEGUN, "question.approve by ben", "task.answered by ben", *RUN]


def test_nobody_decides_and_it_is_denied(hub: RunningHub, agent: Client, unattended: dict[str, str]) -> None:
    task = unattended["else denied"]
    assert result(agent, task) == (f"{TOOL} was not approved: nobody decided within 30 min.", True)
    assert events(hub, task) == [*BEGUN, "question.undecided by rule else denied", "task.finished by sweep"]


def test_nobody_decides_and_it_runs(hub: RunningHub, agent: Client, unattended: dict[str, str]) -> None:
    task = unattended["else allowed"]
    assert result(agent, task) == ("Computed else allowed in 0 s", False)
    undecided = ["question.undecided by rule else allowed", "task.answered by sweep"]
    assert events(hub, task) == [*BEGUN, *undecided, *RUN]


def test_nobody_decides_and_others_are_asked(
    hub: RunningHub, team: Team, agent: Client, unattended: dict[str, str]
) -> None:
    task = unattended["else leads"]
    escalated = ["question.undecided by rule else leads", "question.asked by sweep"]
    happened(hub, task, escalated[1])
    assert status(agent, task) == "Waiting for approval by leads, 0 of 1"
    question = asked(hub, task)
    assert 'value="approve"' not in team.ann.read(f"/inbox/{question}/"), "her time is over"
    team.lea.decide(question)
    assert result(agent, task) == ("Computed else leads in 0 s", False)
    assert events(hub, task) == [*BEGUN, *escalated, "question.approve by lea", "task.answered by lea", *RUN]


def test_nor_do_the_others(hub: RunningHub, agent: Client, unattended: dict[str, str]) -> None:
    task, by = unattended["else leads, then nobody"], "by rule else leads, then nobody"
    happened(hub, task, "question.asked by sweep")
    goes_by(hub, task, 31)
    assert result(agent, task) == (f"{TOOL} was not approved: nobody decided within 30 min.", True)
    assert events(hub, task) == [
        *BEGUN,
        f"question.undecided {by}",
        "question.asked by sweep",
        f"question.undecided {by}",
        "task.finished by sweep",
    ]


def test_people_are_reminded(hub: RunningHub, team: Team, agent: Client, unattended: dict[str, str]) -> None:
    task = unattended["reminded"]
    happened(hub, task, "question.reminded by rule reminded")
    question = asked(hub, task)
    assert "reminded" in team.ann.read(f"/inbox/{question}/")
    team.ann.decide(question)
    assert result(agent, task) == ("Computed reminded in 0 s", False)
    reminded = "question.reminded by rule reminded"
    assert events(hub, task) == [*BEGUN, reminded, "question.approve by ann", "task.answered by ann", *RUN]


def test_a_deputy_decides_for_who_is_away(hub: RunningHub, team: Team, agent: Client) -> None:
    task = call(agent, "plain")
    question = asked(hub, task)
    assert 'value="approve"' not in team.dora.read(f"/inbox/{question}/")
    until = datetime.now(UTC) + timedelta(days=1)
    team.ann.fill("/accounts/away/", until=f"{until:%Y-%m-%dT%H:%M}", zone="UTC", deputy="dora")
    team.dora.decide(question)
    team.ann.fill("/accounts/", "/accounts/away/back")
    assert result(agent, task) == ("Computed plain in 0 s", False)
    assert events(hub, task) == [
        *BEGUN,
        "question.approve by dora for ann",
        "task.answered by dora for ann",
        *RUN,
    ]


def test_it_runs_with_other_arguments(hub: RunningHub, team: Team, agent: Client) -> None:
    task = call(agent, "edited")
    team.ann.edit(asked(hub, task), f0="plain")
    told = 'An approver (ann) changed arguments of this call before approving it: label = "plain".'
    assert result(agent, task) == (f"Computed plain in 0 s\n{told}", False)
    assert events(hub, task) == [
        *BEGUN,
        "question.asked by ann",
        "question.edited by ann",
        "question.approve by ann",
        "task.answered by ann",
        *RUN,
    ]


def test_the_requester_is_asked_back(hub: RunningHub, team: Team, agent: Client) -> None:
    task = agent.create(TOOL, {"seconds": 0, "label": "plain"}, caps={**TASKS, **FORMS})
    question = asked(hub, task)
    team.ann.fill(f"/inbox/{question}/", f"/inbox/{question}/ask", text="For whom?")
    wanted = agent.until(task, "input_required")["inputRequests"]
    (key,) = (key for key, request in wanted.items() if "For whom?" in request["params"]["message"])
    agent.update(task, {key: {"action": "accept", "content": {"answer": "for Ada"}}})
    assert status(agent, task) == "Waiting for approval by deciders, 0 of 1"
    assert "for Ada" in team.ann.read(f"/inbox/{question}/")
    team.ann.decide(question)
    assert result(agent, task) == ("Computed plain in 0 s", False)
    assert events(hub, task) == [
        *BEGUN,
        "question.asked.back by ann",
        "question.answered.back by the agent",
        "question.approve by ann",
        "task.answered by ann",
        *RUN,
    ]


def test_an_approval_is_undone_and_the_call_rejected(hub: RunningHub, patient: Web, team: Team, agent: Client) -> None:
    task = call(agent, "undone")
    question = asked(hub, task)
    with Person(hub, "approver", patient.base) as person:
        shown = person.fill(f"/inbox/{question}/", f"/inbox/{question}/decide", verdict="approve")
        assert "task.claimed by the worker" not in events(hub, task)
        undo = re.search(r'action="(/inbox/undo[^"]*)"', shown)
        assert undo is not None
        assert "Undone: it waits for a decision again." in person.press(shown, undo[1], questions=str(question))
    assert status(agent, task) == "Waiting for approval, 0 of 1"
    team.ann.decide(question, "reject", "Not on Friday")
    assert result(agent, task) == (f"{TOOL} was not approved by ann: Not on Friday", True)
    assert events(hub, task) == [
        *BEGUN,
        "question.approve by approver",
        "task.answered by approver",
        "task.asked by approver",
        "question.undone by approver",
        "question.reject by ann",
        "task.finished by ann",
    ]


def test_a_bypass_lets_it_pass(hub: RunningHub, team: Team, agent: Client) -> None:
    team.rita.fill("/rules/bypass", reason="The night of the move", minutes="5")
    try:
        task = called(hub, agent, "plain")
    finally:
        team.rita.fill("/rules/bypass", "/rules/bypass/end", bypass=str(hub.sql("SELECT max(id) FROM bypass")[0][0]))
    assert events(hub, task) == [BEGUN[0], "rules.bypassed by the agent", *RUN]
    after = call(agent, "plain")
    assert status(agent, after) == "Waiting for approval by deciders, 0 of 1"
    agent.cancel(after)


def test_a_rule_on_trial_only_leaves_a_note(hub: RunningHub, team: Team, agent: Client) -> None:
    task = called(hub, agent, "on trial")
    assert events(hub, task) == [BEGUN[0], *RUN]
    noted(hub, "rules.tried", {"rules": ["on trial"]})


def test_a_rule_denies_it(hub: RunningHub, team: Team, agent: Client) -> None:
    found = agent.tool(TOOL, {"seconds": 0, "label": "never"}, caps=TASKS).result
    assert found["isError"]
    assert found["content"][0]["text"] == "Not called: Not on this machine."
    noted(hub, "rules.denied", {"rule": "never"})
    assert hub.sql("SELECT FROM task WHERE arguments ->> 'label' = 'never'") == []


def test_people_reject_it(hub: RunningHub, team: Team, agent: Client) -> None:
    task = call(agent, "plain")
    team.ben.decide(asked(hub, task), "reject", "Not on Friday")
    assert result(agent, task) == (f"{TOOL} was not approved by ben: Not on Friday", True)
    assert events(hub, task) == [*BEGUN, "question.reject by ben", "task.finished by ben"]


def test_people_comment_on_it(hub: RunningHub, team: Team, agent: Client) -> None:
    task = call(agent, "plain")
    question = asked(hub, task)
    team.ben.fill(f"/inbox/{question}/", f"/inbox/{question}/comment", text="I know this one.")
    assert "I know this one." in team.ann.read(f"/inbox/{question}/")
    team.ann.decide(question)
    told, _ = result(agent, task)
    assert told == "Computed plain in 0 s", "the agent does not read what people say to each other"
    commented = "question.commented by ben"
    assert events(hub, task) == [*BEGUN, commented, "question.approve by ann", "task.answered by ann", *RUN]


def test_of_two_people_who_decide_at_once_one_counts(hub: RunningHub, team: Team, agent: Client) -> None:
    task = call(agent, "plain")
    question = asked(hub, task)
    start = threading.Barrier(2)

    def race(send: Callable[[], str]) -> str:
        start.wait(20)
        return send()

    with ThreadPoolExecutor(2) as pool:
        cards = [
            person.filled(f"/inbox/{question}/", f"/inbox/{question}/decide", verdict=verdict, reason="seen")
            for person, verdict in ((team.ann, "approve"), (team.ben, "reject"))
        ]
        shown = list(pool.map(race, cards))
    told, is_error = result(agent, task)
    if is_error:
        assert told == f"{TOOL} was not approved by ben: seen"
        assert "Already rejected by ben." in shown[0]
        assert events(hub, task) == [*BEGUN, "question.reject by ben", "task.finished by ben"]
    else:
        assert told == "Computed plain in 0 s"
        assert "Already approved by ann." in shown[1]
        assert events(hub, task) == [*BEGUN, "question.approve by ann", "task.answered by ann", *RUN]


def test_it_is_handed_over(hub: RunningHub, team: Team, agent: Client) -> None:
    task = call(agent, "plain")
    question = asked(hub, task)
    page = f"/inbox/{question}/hand-over"
    team.ann.fill(page, page, to="person:cy", text="You know it")
    assert f'id="question-{question}"' not in team.ann.read("/inbox/")
    assert "handed to you" in team.cy.read("/inbox/")
    team.cy.decide(question)
    assert result(agent, task) == ("Computed plain in 0 s", False)
    handed = "question.handed.over by ann"
    assert events(hub, task) == [*BEGUN, handed, "question.approve by cy", "task.answered by cy", *RUN]
