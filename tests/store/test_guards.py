"""What the database refuses, whoever asks: SQLSTATEs TH001 to TH008, and TH010 (TH011: test_deferred_guards.py)."""

from __future__ import annotations

import re
import secrets
from typing import Any

import psycopg
import pytest

from taskhub.core.states import PAIRS, TERMINAL, State
from tests.store import raw as sql
from tests.store.raw import Raw, refused, violates

LIVE = [state for state in State if state not in TERMINAL]
ILLEGAL = [(a, b) for a in LIVE for b in State if a is not b and (a, b) not in PAIRS]
FROM_THE_DEAD = [(a, b) for a in TERMINAL for b in State if a is not b]


def name(pair: tuple[State, State]) -> str:
    return f"{pair[0]}>{pair[1]}"


# --- transitions: TH003, TH002


def test_the_pairs_of_the_trigger_are_the_pairs_of_the_state_table(raw: Raw) -> None:
    row = raw.execute("SELECT pg_get_functiondef('task_guard'::regproc)").fetchone()
    assert row is not None
    written = re.findall(r"'([a-z_]+)>([a-z_]+)'", row[0])
    assert len(written) == len(set(written))
    assert set(written) == {(str(a), str(b)) for a, b in PAIRS}


@pytest.mark.parametrize("pair", sorted(PAIRS), ids=name)
def test_a_listed_transition_passes(raw: Raw, pair: tuple[State, State]) -> None:
    before, after = pair
    task = sql.task(raw, state=before)
    sql.move(raw, task, after)
    row = raw.execute("SELECT state FROM task WHERE id = %s", (task,)).fetchone()
    assert row == (str(after),)


@pytest.mark.parametrize("pair", ILLEGAL, ids=name)
def test_an_unlisted_transition_of_a_live_task_is_refused(raw: Raw, pair: tuple[State, State]) -> None:
    task = sql.task(raw, state=pair[0])
    with refused("TH003"):
        sql.move(raw, task, pair[1])


@pytest.mark.parametrize("pair", FROM_THE_DEAD, ids=name)
def test_no_transition_leaves_a_terminal_state(raw: Raw, pair: tuple[State, State]) -> None:
    task = sql.task(raw, state=pair[0])
    with refused("TH002"):
        sql.move(raw, task, pair[1])


@pytest.mark.parametrize("state", LIVE)
def test_an_unknown_state_is_refused(raw: Raw, state: State) -> None:
    task = sql.task(raw, state=state)
    with refused("TH003"):
        sql.move(raw, task, "paused")


@pytest.mark.parametrize("state", ["finished", "faulted", "cancelled", "paused"])
def test_a_task_is_born_alive(raw: Raw, state: str) -> None:
    of = sql.owner(raw)
    with refused("TH003"):
        sql.task(raw, of, born=state)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_an_ended_task_has_its_last_version(raw: Raw, state: State) -> None:
    task = sql.task(raw, state=state)
    with refused("TH001"):
        raw.execute("UPDATE task SET version = version + 1 WHERE id = %s", (task,))


@pytest.mark.parametrize("state", sorted(TERMINAL))
@pytest.mark.parametrize(
    "change",
    [
        "message = 'later'",
        "result = '{\"content\":[]}'",
        'error = \'{"code":-32000,"message":"other"}\'',
        "is_error = NOT is_error",
        "ended_at = ended_at + interval '1 second'",
        "lease_epoch = lease_epoch + 1",
        "lease_until = clock_timestamp()",
        "progress = 1",
        "total = 2",
        "cancel_requested_at = clock_timestamp()",
        "upstream_state = 'x'",
    ],
)
def test_nothing_about_an_ended_task_changes(raw: Raw, state: State, change: str) -> None:
    task = sql.task(raw, state=state)
    with refused("TH002"):
        raw.execute(f"UPDATE task SET {change} WHERE id = {task}")


def test_only_the_time_to_live_of_an_ended_task_may_still_move(raw: Raw) -> None:
    task = sql.task(raw, state=State.FINISHED)
    raw.execute(
        "UPDATE task SET expires_at = clock_timestamp(), last_polled_at = clock_timestamp() WHERE id = %s", (task,)
    )
    assert raw.execute("SELECT version FROM task WHERE id = %s", (task,)).fetchone() == (3,)


# --- identity: TH001


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "id + 1000000"),
        ("public_id", "reverse(public_id)"),
        ("tenant_id", "tenant_id + 1"),
        ("context_id", "context_id + 1"),
        ("tool_id", "tool_id + 1"),
        ("tool_name", "'other'"),
        ("revision", "'2025-11-25'"),
        ("arguments", '\'{"text":"other"}\''),
        ("arguments", '\'{ "text":"hello"}\''),
        ("arguments_digest", "sha256('x')"),
        ("created_at", "created_at - interval '1 second'"),
        ("idempotency_key", "'other'"),
        ("version", "version + 2"),
        ("version", "version - 1"),
        ("updated_at", "updated_at + interval '1 second'"),
    ],
)
def test_what_a_task_is_never_changes(raw: Raw, column: str, value: str) -> None:
    task = sql.task(raw)
    with refused("TH001"):
        raw.execute(f"UPDATE task SET {column} = {value} WHERE id = {task}")


@pytest.mark.parametrize("bad", ["short", "x" * 21, "x" * 65, "with space in the middle", "snowman-☃-snowman-snowman"])
def test_a_public_id_is_long_and_url_safe(raw: Raw, bad: str) -> None:
    of = sql.owner(raw)
    with pytest.raises(psycopg.Error) as caught:
        sql.task(raw, of, public_id=bad)
    assert caught.value.sqlstate in ("TH001", "22001")  # 22001: longer than the column


def test_the_version_grows_by_one_with_each_visible_change_and_cannot_be_set(raw: Raw) -> None:
    task = sql.task(raw)
    raw.execute("UPDATE task SET message = 'a', version = 40 WHERE id = %s", (task,))
    raw.execute("UPDATE task SET last_polled_at = clock_timestamp() WHERE id = %s", (task,))
    raw.execute("UPDATE task SET message = 'b', updated_at = created_at WHERE id = %s", (task,))
    row = raw.execute("SELECT version, updated_at > created_at FROM task WHERE id = %s", (task,)).fetchone()
    assert row == (3, True)


# --- lease: TH004; cancel: TH005


@pytest.mark.parametrize("epoch", [0, 3, 100])
def test_a_lease_epoch_grows_by_one_only(raw: Raw, epoch: int) -> None:
    task = sql.task(raw, state=State.WORKING)
    with refused("TH004"):
        raw.execute("UPDATE task SET lease_epoch = %s WHERE id = %s", (epoch, task))


@pytest.mark.parametrize("value", ["NULL", "cancel_requested_at + interval '1 second'"])
def test_a_cancel_request_stays_as_it_was_made(raw: Raw, value: str) -> None:
    task = sql.task(raw, state=State.WORKING)
    raw.execute("UPDATE task SET cancel_requested_at = clock_timestamp() WHERE id = %s", (task,))
    with refused("TH005"):
        raw.execute(f"UPDATE task SET cancel_requested_at = {value} WHERE id = {task}")


def test_a_task_with_a_cancel_request_is_not_claimed(raw: Raw) -> None:
    task = sql.task(raw)
    raw.execute("UPDATE task SET cancel_requested_at = clock_timestamp() WHERE id = %s", (task,))
    with refused("TH005"):
        sql.move(raw, task, "working")


# --- questions: TH006, TH007


@pytest.mark.parametrize(
    "change",
    ["state = 'open', response = NULL, closed_at = NULL", 'response = \'{"action":"decline"}\'', "due_at = NULL"],
)
def test_a_closed_question_stays_as_it_is(raw: Raw, change: str) -> None:
    of = sql.owner(raw)
    task = sql.task(raw, of)
    question = sql.question(raw, task, of.tenant)
    raw.execute(
        "UPDATE question SET state = 'answered', response = '{}', closed_at = clock_timestamp() WHERE id = %s",
        (question,),
    )
    with refused("TH006"):
        raw.execute(f"UPDATE question SET {change} WHERE id = {question}")


@pytest.mark.parametrize(
    "change",
    [
        "key = 'other'",
        "kind = 'roots'",
        "params = '{\"a\":1}'",
        "audience = 'either'",
        "\"group\" = 'ops'",
        "quorum = 2",
        "opened_at = clock_timestamp() + interval '1 hour'",
        "tenant_id = tenant_id + 1",
        "task_id = task_id + 1",
    ],
)
def test_what_was_asked_never_changes(raw: Raw, change: str) -> None:
    of = sql.owner(raw)
    question = sql.question(raw, sql.task(raw, of), of.tenant)
    with refused("TH006"):
        raw.execute(f"UPDATE question SET {change} WHERE id = {question}")


def test_a_question_goes_from_the_client_to_people_and_not_back(raw: Raw) -> None:
    of = sql.owner(raw)
    question = sql.question(raw, sql.task(raw, of, born="input_required"), of.tenant, audience="either")
    raw.execute(f"UPDATE question SET audience = 'operator' WHERE id = {question}")
    with refused("TH006"):
        raw.execute(f"UPDATE question SET audience = 'either' WHERE id = {question}")


def test_a_key_is_asked_once_in_a_tasks_life(raw: Raw) -> None:
    of = sql.owner(raw)
    task = sql.task(raw, of)
    sql.question(raw, task, of.tenant, key="again")
    with violates("question_key_once_per_task"):
        sql.question(raw, task, of.tenant, key="again")


def test_an_open_question_without_input_required_is_refused_at_commit(raw: Raw) -> None:
    of = sql.owner(raw)
    sql.question(raw, sql.task(raw, of), of.tenant)
    with refused("TH007"):
        raw.commit()


def test_input_required_without_an_open_question_is_refused_at_commit(raw: Raw) -> None:
    sql.task(raw, born="input_required")
    with refused("TH007"):
        raw.commit()


def test_going_to_input_required_without_asking_is_refused_at_commit(raw: Raw) -> None:
    task = sql.task(raw, state=State.WORKING)
    sql.move(raw, task, "input_required")
    with refused("TH007"):
        raw.commit()


@pytest.mark.parametrize("state", ["queued", "working", "cancelled"])
def test_leaving_input_required_with_an_open_question_is_refused_at_commit(raw: Raw, state: str) -> None:
    task = sql.task(raw, state=State.INPUT_REQUIRED)
    sql.move(raw, task, state)
    with refused("TH007"):
        raw.commit()


def test_closing_the_last_question_alone_is_refused_at_commit(raw: Raw) -> None:
    task = sql.task(raw, state=State.INPUT_REQUIRED)
    raw.execute("UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = %s", (task,))
    with refused("TH007"):
        raw.commit()


def test_a_question_is_never_deleted_alone(raw: Raw) -> None:
    task = sql.task(raw, state=State.INPUT_REQUIRED)
    with refused("TH008"):
        raw.execute("DELETE FROM question WHERE task_id = %s", (task,))


def test_both_changes_in_either_order_pass(raw: Raw) -> None:
    task = sql.task(raw, state=State.INPUT_REQUIRED)
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
    raw.execute("SET CONSTRAINTS ALL DEFERRED")
    sql.move(raw, task, "queued")
    raw.execute("UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = %s", (task,))
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what a commit checks


# --- append-only: TH008


@pytest.mark.parametrize("table", ["event", "seal"])
@pytest.mark.parametrize(
    "statement",
    ["UPDATE {} SET at = clock_timestamp() WHERE id = {}", "DELETE FROM {} WHERE id = {}", "TRUNCATE {} -- {}"],
)
def test_events_and_seals_are_only_ever_added(raw: Raw, table: str, statement: str) -> None:
    made = sql.event(raw) if table == "event" else sql.seal(raw)
    with refused("TH008"):
        raw.execute(statement.format(table, made))


def test_a_decision_is_not_rewritten(raw: Raw) -> None:
    of = sql.owner(raw)
    question = sql.question(raw, sql.task(raw, of), of.tenant)
    made = sql.insert(
        raw, "decision", question_id=question, actor="a", verdict="approve", arguments_digest=bytes(32), door="sql"
    )
    with refused("TH008"):
        raw.execute("UPDATE decision SET verdict = 'reject' WHERE id = %s", (made,))


# --- deleting


@pytest.mark.parametrize("state", LIVE)
def test_a_live_task_cannot_be_deleted(raw: Raw, state: State) -> None:
    task = sql.task(raw, state=state)
    with refused("TH002"):
        raw.execute("DELETE FROM task WHERE id = %s", (task,))


def test_an_ended_task_goes_with_all_that_hangs_on_it_and_its_events_stay(raw: Raw) -> None:
    of = sql.owner(raw)
    task = sql.task(raw, of, State.INPUT_REQUIRED)
    question = sql.question(raw, task, of.tenant)
    sql.insert(
        raw, "decision", question_id=question, actor="a", verdict="accept", arguments_digest=bytes(32), door="sql"
    )
    sql.insert(raw, "attempt", task_id=task, number=1, worker="w")
    sql.insert(raw, "task_log", task_id=task, level="info", text="hello")
    raw.execute("INSERT INTO result_read VALUES (%s, %s, now(), now(), 1)", (task, of.context))
    again = sql.task(raw, of, rerun_of_id=task)
    raw.execute("UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = %s", (task,))
    sql.move(raw, task, "cancelled")
    raw.execute("DELETE FROM task WHERE id = %s", (task,))
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what a commit checks
    for table, where in [
        ("question", f"task_id = {task}"),
        ("decision", f"question_id = {question}"),
        ("attempt", f"task_id = {task}"),
        ("task_log", f"task_id = {task}"),
        ("result_read", f"task_id = {task}"),
    ]:
        assert raw.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone() == (0,)
    assert raw.execute("SELECT rerun_of_id FROM task WHERE id = %s", (again,)).fetchone() == (None,)
    assert raw.execute("SELECT count(*) FROM event WHERE task_id = %s", (task,)).fetchone() == (2,)


# --- CHECKs, by name

FINISHED = "state = 'finished', ended_at = clock_timestamp(), lease_until = NULL"
FAULTED = "state = 'faulted', ended_at = clock_timestamp(), lease_until = NULL"


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("task_result_iff_finished", FINISHED),
        ("task_result_iff_finished", "result = '{}'"),
        ("task_error_iff_faulted", FAULTED),
        ("task_error_iff_faulted", 'error = \'{"code":1,"message":"x"}\''),
        ("task_ended_iff_terminal", "state = 'cancelled', lease_until = NULL"),
        ("task_ended_iff_terminal", "ended_at = clock_timestamp()"),
        ("task_lease_only_while_held", "state = 'queued'"),
        ("task_ttl_range", "ttl_ms = 999"),
        ("task_ttl_range", "ttl_ms = 2592000001"),
        ("task_ttl_range", "ttl_ms = -1"),
        ("task_poll_interval_range", "poll_interval_ms = 99"),
        ("task_poll_interval_range", "poll_interval_ms = 60001"),
    ],
)
def test_a_check_of_a_task_holds(raw: Raw, constraint: str, change: str) -> None:
    task = sql.task(raw, state=State.WORKING)
    with violates(constraint):
        raw.execute(f"UPDATE task SET {change} WHERE id = {task}")


@pytest.mark.parametrize("ttl", ["1000", "2592000000", "NULL"])
def test_the_edges_of_the_ttl_range_pass(raw: Raw, ttl: str) -> None:
    raw.execute(f"UPDATE task SET ttl_ms = {ttl} WHERE id = {sql.task(raw)}")


@pytest.mark.parametrize(
    "error",
    [
        "{}",
        "[]",
        "1",
        '"text"',
        "null",
        '{"code":-32603}',
        '{"message":"x"}',
        '{"code":"-32603","message":"x"}',
        '{"code":null,"message":"x"}',
        '{"code":true,"message":"x"}',
        '{"code":1,"message":null}',
        '{"code":1,"message":7}',
        '[{"code":1,"message":"x"}]',
    ],
)
def test_an_error_is_a_jsonrpc_error_also_where_the_check_would_be_null(raw: Raw, error: str) -> None:
    task = sql.task(raw, state=State.WORKING)
    with violates("task_error_is_jsonrpc"):
        raw.execute(f"UPDATE task SET {FAULTED}, error = %s WHERE id = %s", (error, task))


@pytest.mark.parametrize("error", ["", "boom", "{", '{"code":1,"message":"\\u0000"}'])
def test_an_error_that_is_no_json_is_refused(raw: Raw, error: str) -> None:
    task = sql.task(raw, state=State.WORKING)
    with pytest.raises(psycopg.errors.DataError):
        raw.execute(f"UPDATE task SET {FAULTED}, error = %s WHERE id = %s", (error, task))


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("question_response_iff_answered", "state = 'answered', closed_at = clock_timestamp()"),
        ("question_response_iff_answered", "state = 'superseded', response = '{}', closed_at = clock_timestamp()"),
        ("question_response_iff_answered", "response = '{}'"),
        ("question_closed_iff_not_open", "state = 'expired'"),
        ("question_closed_iff_not_open", "closed_at = clock_timestamp()"),
        ("question_state_known", "state = 'maybe', closed_at = clock_timestamp()"),
    ],
)
def test_a_check_of_a_question_holds(raw: Raw, constraint: str, change: str) -> None:
    of = sql.owner(raw)
    question = sql.question(raw, sql.task(raw, of), of.tenant)
    with violates(constraint):
        raw.execute(f"UPDATE question SET {change} WHERE id = {question}")


@pytest.mark.parametrize(
    ("column", "constraint"), [("kind", "question_kind_known"), ("audience", "question_audience_known")]
)
def test_a_question_is_of_a_known_kind_for_a_known_audience(raw: Raw, column: str, constraint: str) -> None:
    of = sql.owner(raw)
    task = sql.task(raw, of)
    with violates(constraint):
        sql.question(raw, task, of.tenant, **{column: "other"})


def test_a_task_is_not_born_after_its_first_change(raw: Raw) -> None:
    of = sql.owner(raw)
    with violates("task_times_in_order"):
        sql.task(raw, of, created_at="2030-01-02", updated_at="2030-01-01")


def test_an_idempotency_key_is_unique_within_a_context_only(raw: Raw) -> None:
    one, other = sql.owner(raw), sql.owner(raw)
    sql.task(raw, one, idempotency_key="k")
    sql.task(raw, other, idempotency_key="k")
    sql.task(raw, one)
    sql.task(raw, one)
    with violates("task_idempotency_key_unique"):
        sql.task(raw, one, idempotency_key="k")


def test_a_public_id_is_unique(raw: Raw) -> None:
    of, chosen = sql.owner(raw), secrets.token_urlsafe(24)
    sql.task(raw, of, public_id=chosen)
    with violates("task_public_id_unique"):
        sql.task(raw, of, public_id=chosen)


def test_one_person_decides_once(raw: Raw) -> None:
    of = sql.owner(raw)
    question = sql.question(raw, sql.task(raw, of), of.tenant)
    user = sql.insert(
        raw, "auth_user", username="p", password="", first_name="", last_name="", email="", is_superuser=False,
        is_staff=False, is_active=True, date_joined="2026-01-01",
    )  # fmt: skip
    given: dict[str, Any] = {"question_id": question, "actor": "p", "arguments_digest": bytes(32), "door": "web"}
    sql.insert(raw, "decision", user_id=user, verdict="approve", **given)
    with violates("decision_one_per_person"):
        sql.insert(raw, "decision", user_id=user, verdict="reject", **given)


# --- secrets


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_tokens_digest_has_32_bytes(raw: Raw, length: int) -> None:
    of = sql.owner(raw)
    with violates("access_token_digest_is_sha256"):
        sql.insert(raw, "access_token", context_id=of.context, digest=bytes(length), prefix="thub_x", scopes=[])


def test_two_tokens_never_share_a_digest(raw: Raw) -> None:
    of = sql.owner(raw)
    sql.insert(raw, "access_token", context_id=of.context, digest=bytes(32), prefix="thub_x", scopes=[])
    with violates("access_token_digest_unique"):
        sql.insert(raw, "access_token", context_id=of.context, digest=bytes(32), prefix="thub_y", scopes=[])


def test_no_column_could_hold_a_token_or_secret_in_clear(raw: Raw) -> None:
    found = raw.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND column_name ~* '(token|secret)'"
        " AND (data_type LIKE 'char%' OR data_type IN ('text', 'json', 'jsonb', 'ARRAY'))"
        " AND column_name <> 'progress_token'"  # a caller's name for its own progress
    ).fetchall()
    # The OAuth toolkit's columns are text. Constraints have each hold a digest, or nothing.
    assert sorted(found) == [
        ("oauth2_provider_accesstoken", "token"),
        ("oauth2_provider_accesstoken", "token_checksum"),
        ("oauth2_provider_application", "client_secret"),
        ("oauth2_provider_refreshtoken", "token"),
        ("oauth2_provider_refreshtoken", "token_checksum"),
    ]
    guards = raw.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname LIKE 'oauth%hashed'"
    ).fetchall()
    assert sorted(guards) == [
        ("oauth_access_token_hashed", "CHECK ((token = ''::text))"),
        ("oauth_code_hashed", "CHECK (((code)::text ~ '^[0-9a-f]{64}$'::text))"),
        ("oauth_refresh_token_hashed", "CHECK ((token = ''::text))"),
        ("oauth_secret_hashed", "CHECK (((client_secret)::text ~~ 'random\\_sha256$%'::text))"),
    ]
    held = raw.execute(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE (table_name, column_name) IN"
        " (('access_token', 'digest'), ('server', 'credentials'), ('server', 'sealed_target'))"
    ).fetchall()
    assert sorted(held) == [("credentials", "bytea"), ("digest", "bytea"), ("sealed_target", "bytea")]


def test_the_application_is_no_superuser(raw: Raw) -> None:
    """Or every refusal here would prove nothing."""
    assert raw.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        raw.execute("SET session_replication_role = replica")


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("relay_method_known", {"method": "tools/call"}),
        ("relay_state_known", {"state": "lost", "worker": "w"}),
        ("relay_outcome_iff_done", {"state": "done", "worker": "w"}),
        ("relay_outcome_iff_done", {"outcome": "{}"}),
        ("relay_worker_iff_claimed", {"state": "running"}),
        ("relay_worker_iff_claimed", {"worker": "w"}),
    ],
)
def test_a_check_of_a_relay_holds(raw: Raw, constraint: str, values: dict[str, Any]) -> None:
    of = sql.owner(raw)
    given = {
        "id": 7,
        "context_id": of.context,
        "server_id": of.server,
        "method": "resources/read",
        "params": "{}",
        "capabilities": "{}",
        "deadline": "2099-01-01",
    }
    with violates(constraint):
        sql.insert(raw, "relay", **{**given, **values})


def test_an_offer_is_there_once(raw: Raw) -> None:
    of = sql.owner(raw)
    given = {"server_id": of.server, "key": "x://1", "exposed_name": "x://1", "definition": "{}", "digest": ""}
    sql.insert(raw, "offer", kind="resource", **given)
    sql.insert(raw, "offer", kind="template", **given)
    with violates("offer_key_unique"):
        sql.insert(raw, "offer", kind="resource", **given)


def test_an_offer_is_of_a_known_kind(raw: Raw) -> None:
    of = sql.owner(raw)
    with violates("offer_kind_known"):
        sql.insert(
            raw, "offer", kind="tool", server_id=of.server, key="x", exposed_name="x", definition="{}", digest=""
        )


def test_an_interest_is_there_once(raw: Raw) -> None:
    of = sql.owner(raw)
    given = {"holder": "h", "server_id": of.server, "uri": "x://1", "expires_at": "2099-01-01"}
    sql.insert(raw, "interest", **given)
    with violates("interest_unique"):
        sql.insert(raw, "interest", **given)


# --- removed servers: TH010


def test_a_removed_server_stays_as_it_is_and_keeps_no_secret(raw: Raw) -> None:
    server = sql.owner(raw).server
    raw.execute("UPDATE server SET credentials = 'x' WHERE id = %s", (server,))
    with violates("server_removed_keeps_no_secret"), raw.transaction():
        raw.execute(
            "UPDATE server SET removed_at = now(), enabled = false, state = 'disabled' WHERE id = %s", (server,)
        )
    gone = "removed_at = now(), enabled = false, state = 'disabled', credentials = NULL"
    raw.execute(f"UPDATE server SET {gone} WHERE id = %s", (server,))
    for change in ("removed_at = NULL", "enabled = true", "problem = 'x'", "credentials = 'x'"):
        with refused("TH010"), raw.transaction():
            raw.execute(f"UPDATE server SET {change} WHERE id = %s", (server,))
