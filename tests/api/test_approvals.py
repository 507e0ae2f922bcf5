"""`/api/v1/approvals`: calls that clients make themselves, decided by the same rules as calls through the hub."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from taskhub.core.names import APPROVALS_SCOPE, CALL_SCOPES
from tests.support.approvals import SERVER, Api, question_of
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person
from tests.support.policies import rules_in_force

pytestmark = pytest.mark.processes

RULES: tuple[dict[str, Any], ...] = (
    {"name": "hidden", "when": "tool.name == 'echo_text'", "then": "hide"},
    {
        "name": "Eve is away",
        "when": "tool.name == 'greet' && args.name == 'Eve'",
        "then": "deny",
        "words": "Eve is away; greet somebody else.",
    },
    {"name": "Ann is asked about", "when": "tool.name == 'greet' && args.name == 'Ann'", "then": "ask"},
    {"name": "long work is asked about", "when": "tool.name == 'lengthy'", "then": "ask"},
    {"name": "two for Zoe", "when": "tool.name == 'greet' && args.name == 'Zoe'", "then": "ask", "quorum": 2},
)


@pytest.fixture(scope="module", autouse=True)
def _ruled(hub: RunningHub) -> Iterator[None]:
    with rules_in_force(hub, *RULES):
        yield


@pytest.fixture
def api(hub: RunningHub) -> Api:
    return Api(hub)


def parts(permit: str) -> list[bytes]:
    return [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in permit.split(".")]


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


# Decisions --------------------------------------------------------------------------------


def test_what_a_rule_allows_is_granted_at_once_and_redeemed_once(hub: RunningHub, api: Api) -> None:
    granted = api.ask()
    assert granted["status"] == "granted"
    assert api.read(granted["id"]) == granted
    assert api.redeem(granted) == (200, "redeemed")
    assert api.redeem(granted) == (409, "used")
    assert api.read(granted["id"])["status"] == "redeemed"
    events = hub.sql("SELECT action FROM event WHERE after ->> 'permit' = %s ORDER BY id", [granted["id"]])
    assert [action for (action,) in events] == ["permit.issued", "permit.redeemed", "permit.refused"]
    assert hub.sql("SELECT count(*) FROM task WHERE public_id = %s", [granted["id"]]) == [(0,)]


def test_what_a_rule_denies_is_denied_in_its_words(api: Api) -> None:
    assert api.ask("Eve") == {"status": "denied", "message": "Not called: Eve is away; greet somebody else."}


@pytest.mark.parametrize("tool", ["echo_text", "no-such-tool"])
def test_a_hidden_tool_is_as_unknown_as_one_that_does_not_exist(api: Api, tool: str) -> None:
    status, found = api.send("POST", "/approvals", {"server": SERVER, "tool": tool, "arguments": {}})
    assert (status, found) == (
        404,
        {"error": {"code": "not_found", "message": f"Unknown tool: {tool} of server {SERVER}"}},
    )


def test_a_server_that_is_unknown_tells_nothing_of_the_tools_of_others(api: Api) -> None:
    status, _ = api.send("POST", "/approvals", {"server": "elsewhere", "tool": "greet", "arguments": {"name": "Bob"}})
    assert status == 404


def test_people_approve_while_the_client_waits(hub: RunningHub, api: Api) -> None:
    pending = api.ask("Ann")
    assert pending["status"] == "pending"
    assert "Waiting for approval" in pending["message"]
    with Person(hub, "approver") as approver, ThreadPoolExecutor() as pool:
        assert approver.led_to(pending["page"]) == question_of(hub, pending["id"])
        waiting = pool.submit(api.read, pending["id"], 20)
        approver.decide(question_of(hub, pending["id"]))
        granted = waiting.result()
    assert granted["status"] == "granted"
    assert api.redeem(granted, "Ann") == (200, "redeemed")
    ((state, attempts, by),) = hub.sql(
        "SELECT t.state, (SELECT count(*) FROM attempt a WHERE a.task_id = t.id),"
        " (SELECT e.actor FROM event e WHERE e.task_id = t.id AND e.action = 'permit.issued')"
        " FROM task t WHERE t.public_id = %s",
        [pending["id"]],
    )
    assert (state, attempts, by) == ("finished", 0, "approver")


def test_a_quorum_counts_here_too(hub: RunningHub, api: Api) -> None:
    pending = api.ask("Zoe")
    with Person(hub, "approver") as approver:
        approver.decide(question_of(hub, pending["id"]))
    assert "1 of 2" in api.read(pending["id"])["message"]
    with Person(hub, "admin") as admin:
        admin.decide(question_of(hub, pending["id"]))
    assert api.read(pending["id"])["status"] == "granted"


def test_a_rejection_reaches_the_client_with_its_reason(hub: RunningHub, api: Api) -> None:
    pending = api.ask("Ann")
    with Person(hub, "approver") as approver:
        approver.decide(question_of(hub, pending["id"]), "reject", "not today")
    found = api.read(pending["id"])
    assert (found["status"], "permit" in found) == ("denied", False)
    assert found["message"].endswith("was not approved by approver: not today")


def test_nobody_decides_in_time(hub: RunningHub, api: Api) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2.5)
    pending = api.ask("Ann", wanted_by=soon.isoformat())
    assert pending["status"] == "pending"
    assert wait_until(
        lambda: found if (found := api.read(pending["id"], wait=5))["status"] != "pending" else None, "its end"
    )["status"] == ("expired")


def test_a_request_may_be_as_large_as_a_call(api: Api) -> None:
    large = "x" * 3_000_000
    assert api.ask(large)["status"] == "denied", "rules are in doubt about so large an argument"
    assert api.redeem(api.ask(), large) == (409, "other_arguments")


def test_a_client_withdraws_its_request(hub: RunningHub, api: Api) -> None:
    pending = api.ask("Ann")
    assert api.send("DELETE", f"/approvals/{pending['id']}")[1]["status"] == "cancelled"
    assert api.send("DELETE", f"/approvals/{pending['id']}")[1]["status"] == "cancelled"
    granted = api.ask()
    assert api.send("DELETE", f"/approvals/{granted['id']}")[1] == granted


def test_the_same_key_is_the_same_request(api: Api) -> None:
    body = {"server": SERVER, "tool": "greet", "arguments": {"name": "Ann"}}
    key = {"Idempotency-Key": secrets.token_hex(8)}
    first, again = (api.send("POST", "/approvals", body, headers=key)[1] for _ in range(2))
    assert first["id"] == again["id"]
    status, found = api.send("POST", "/approvals", body | {"arguments": {"name": "Zoe"}}, headers=key)
    assert (status, found["error"]["code"]) == (409, "idempotency_key_reused")


def test_people_are_not_asked_about_arguments_that_do_not_fit(api: Api) -> None:
    body = {"server": "extra", "tool": "lengthy", "arguments": {"seconds": "many"}}
    status, found = api.send("POST", "/approvals", body)
    assert (status, found["error"]["code"]) == (422, "arguments_do_not_fit")


def test_people_are_told_that_the_client_makes_the_call(hub: RunningHub, api: Api) -> None:
    pending = api.ask("Ann")
    with Person(hub, "admin") as admin:
        question = question_of(hub, pending["id"])
        assert "TaskHub does not run this call" in admin.read(f"/inbox/{question}/")
        admin.decide(question)
        page = admin.read(f"/tasks/{pending['id']}/")
        assert "The client got a permit, and makes the call itself." in page
        assert "Run this call again?" not in page
        assert "/api/v1/approvals" in admin.read(f"/tasks/{pending['id']}/?view=wire")


def test_a_token_that_is_revoked_meanwhile_gets_no_permit(hub: RunningHub, api: Api) -> None:
    pending = api.ask("Ann")
    used = "access_token a JOIN auth_context c ON c.id = a.context_id WHERE c.name = %s"
    hub.sql(f"UPDATE access_token SET last_used_at = NULL WHERE id = (SELECT a.id FROM {used})", [api.name])
    hub.sql("SELECT pg_notify('taskhub', 'p')")
    with Person(hub, "approver") as approver, ThreadPoolExecutor() as pool:
        waiting = pool.submit(api.send, "GET", f"/approvals/{pending['id']}", params={"wait": 30})
        wait_until(lambda: hub.sql(f"SELECT 1 FROM {used} AND last_used_at IS NOT NULL", [api.name]), "the request")
        hub.sql(f"UPDATE access_token SET revoked_at = now() WHERE id = (SELECT a.id FROM {used})", [api.name])
        hub.sql("SELECT pg_notify('taskhub', 'p')")
        approver.decide(question_of(hub, pending["id"]))
        status, found = waiting.result()
    assert (status, found["error"]["code"]) in {(403, "forbidden"), (401, "invalid_token")}


# Permits ----------------------------------------------------------------------------------


def test_a_permit_says_what_it_is_for_and_is_verified_offline(hub: RunningHub, api: Api) -> None:
    granted = api.ask(valid_seconds=60)
    head, claims, signature = parts(granted["permit"])
    (key,) = httpx2.get(f"{hub.base}/api/v1/approvals/jwks.json", trust_env=False).json()["keys"]
    assert json.loads(head) == {"alg": "EdDSA", "kid": key["kid"], "typ": "taskhub-permit+jwt"}
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
    public.verify(signature, granted["permit"].rpartition(".")[0].encode())
    with pytest.raises(InvalidSignature):
        public.verify(signature, b"another")
    ((version,),) = hub.sql("SELECT max(number) FROM rule_version")
    assert json.loads(claims) == {
        "tenant": "main",
        "client": {"issuer": "taskhub", "subject": api.name, "id": api.name},
        "server": SERVER,
        "tool": "greet",
        "arguments_sha256": hashlib.sha256(b'{"name":"Bob"}').hexdigest(),
        "rules": version,
        "exp": int(datetime.fromisoformat(granted["expires_at"]).timestamp()),
        "jti": granted["id"],
    }


def forged(permit: str) -> dict[str, str]:
    """Permits that nobody signed, by how they were made."""
    head, claims, signature = permit.split(".")
    theirs = json.loads(parts(permit)[1])
    key = Ed25519PrivateKey.generate()
    none = encoded(json.dumps({"alg": "none"}).encode())
    more = encoded(json.dumps(theirs | {"arguments_sha256": "0" * 64}).encode())
    hmac = encoded(json.dumps({"alg": "HS256", "typ": "taskhub-permit+jwt"}).encode())
    return {
        "alg none": f"{none}.{claims}.",
        "alg none with a signature": f"{none}.{claims}.{signature}",
        "another algorithm": f"{hmac}.{claims}.{encoded(hashlib.sha256(b'x').digest())}",
        "another key": f"{head}.{claims}.{encoded(key.sign(f'{head}.{claims}'.encode()))}",
        "other claims": f"{head}.{more}.{signature}",
        "no signature": f"{head}.{claims}",
        "another spelling": f"{permit}=",
        "no permit": "x",
    }


@pytest.mark.parametrize("how", sorted(forged("e30.e30.e30")))
def test_a_forged_permit_is_refused_and_the_real_one_still_counts(api: Api, how: str) -> None:
    granted = api.ask()
    assert api.redeem(granted, permit=forged(granted["permit"])[how]) == (409, "not_this_permit")
    assert api.redeem(granted) == (200, "redeemed")


def test_the_permit_of_another_approval_is_refused(api: Api) -> None:
    first, second = api.ask(), api.ask()
    assert api.redeem(first | {"permit": second["permit"]}) == (409, "not_this_permit")


def test_a_permit_for_other_arguments_is_refused(api: Api) -> None:
    granted = api.ask()
    assert api.redeem(granted, "Ann") == (409, "other_arguments")
    assert api.redeem(granted, arguments={"name": "Bob", "mark": "x"}) == (409, "other_arguments")
    assert api.redeem(granted) == (200, "redeemed")


def test_a_permit_is_for_no_number_that_only_rounds_to_its_own(hub: RunningHub, api: Api) -> None:
    granted = api.ask(tool="slow_compute", arguments={"seconds": 0.1})
    for number, said in (("0.1000000000000000055", 400), ("0.10", 200)):
        answer = httpx2.post(
            f"{hub.base}/api/v1/approvals/{granted['id']}/redeem",
            content=f'{{"permit":"{granted["permit"]}","arguments":{{"seconds":{number}}}}}',
            headers={"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"},
            trust_env=False,
        )
        assert answer.status_code == said, answer.text


def test_a_permit_that_has_expired_is_refused(hub: RunningHub, api: Api) -> None:
    granted = api.ask(valid_seconds=10)
    hub.sql("ALTER TABLE permit DISABLE TRIGGER permit_guard")
    try:
        hub.sql(
            "UPDATE permit SET issued_at = issued_at - interval '10 s', expires_at = expires_at - interval '10 s'"
            " WHERE public_id = %s",
            [granted["id"]],
        )
    finally:
        hub.sql("ALTER TABLE permit ENABLE TRIGGER permit_guard")
    assert api.read(granted["id"])["status"] == "expired"
    late = {"permit": granted["permit"], "id": granted["id"]}
    assert api.redeem(late) == (409, "not_this_permit")  # its expiry is another now


def test_another_client_learns_nothing(hub: RunningHub, api: Api) -> None:
    granted, pending, other = api.ask(), api.ask("Ann"), Api(hub)
    unknown = other.send("GET", f"/approvals/{secrets.token_urlsafe(24)}")
    assert unknown[0] == 404
    for approval in (granted["id"], pending["id"]):
        assert other.send("GET", f"/approvals/{approval}") == unknown
        assert other.send("DELETE", f"/approvals/{approval}") == unknown
    assert other.redeem(granted) == (404, "not_found")
    assert other.redeem(granted | {"id": secrets.token_urlsafe(24)}) == (404, "not_found")
    assert api.redeem(granted) == (200, "redeemed")


def test_of_many_at_once_one_redeems_it(api: Api, hub: RunningHub) -> None:
    granted = api.ask()
    at_once = 8
    barrier = threading.Barrier(at_once)

    def redeem(_: int) -> tuple[int, str]:
        barrier.wait()
        return api.redeem(granted)

    with ThreadPoolExecutor(at_once) as pool:
        outcomes = sorted(pool.map(redeem, range(at_once)))
    assert outcomes == [(200, "redeemed")] + [(409, "used")] * (at_once - 1)


def test_a_tool_that_changed_since_needs_another_approval(hub: RunningHub, api: Api) -> None:
    ((digest,),) = hub.sql("SELECT digest FROM tool WHERE name = 'greet'")
    try:
        for _ in range(5):
            granted, pending = api.ask(), api.ask("Ann")
            hub.sql("UPDATE tool SET digest = %s WHERE name = 'greet'", ["1" * 64])
            refused = api.redeem(granted)
            with Person(hub, "approver") as approver:
                approver.decide(question_of(hub, pending["id"]))
            found = api.read(pending["id"])
            # A listing of the server, which comes at any time, puts the digest back: then it did not stay long enough.
            if hub.sql("SELECT digest FROM tool WHERE name = 'greet'") == [("1" * 64,)]:
                break
        assert refused == (409, "tool_changed")
        assert (found["status"], found["message"]) == (
            "failed",
            "No permit: the tool has changed since the call was approved",
        )
    finally:
        hub.sql("UPDATE tool SET digest = %s WHERE name = 'greet'", [digest])
    assert api.redeem(granted) == (200, "redeemed")


# Tokens and bodies ------------------------------------------------------------------------


def test_a_token_without_the_scope_gets_nothing(hub: RunningHub, api: Api) -> None:
    granted, without = api.ask(), Api(hub, *CALL_SCOPES)
    for method, path in (
        ("POST", "/approvals"),
        ("GET", f"/approvals/{granted['id']}"),
        ("DELETE", f"/approvals/{granted['id']}"),
        ("POST", f"/approvals/{granted['id']}/redeem"),
    ):
        status, found = without.send(method, path, {} if method == "POST" else None)
        assert (status, found["error"]["code"]) == (403, "insufficient_scope")
    on_record = "SELECT count(*) FROM event WHERE action = 'access.denied' AND actor = %s AND after ->> 'lacking' = %s"
    assert hub.sql(on_record, [without.name, APPROVALS_SCOPE]) == [(1,)]


def test_the_scope_lets_a_client_do_nothing_else(hub: RunningHub, api: Api) -> None:
    with Client(hub.base, api.token) as client:
        assert client.tool("greet", {"name": "x"}).status == 403


def test_a_caller_without_a_token_gets_nothing(hub: RunningHub) -> None:
    answer = httpx2.post(f"{hub.base}/api/v1/approvals", json={}, trust_env=False)
    assert answer.status_code == 401
    assert f'scope="{APPROVALS_SCOPE}"' in answer.headers["WWW-Authenticate"]
    assert answer.json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 400, "The body is empty"),
        (b"{", 400, "line 1"),
        (b'{"server":"s","tool":"t","valid_seconds":"60"}', 422, "integer"),
        (b'{"server":"s","tool":"t","valid_seconds":true}', 422, "integer"),
        (b'{"server":"s","tool":"t","valid_seconds":60.0}', 422, "integer"),
        (b'{"server":"s","tool":"t","wanted_by":"1796126400"}', 422, "RFC 3339"),
        (b'{"server":"s","tool":"t","wanted_by":1796126400}', 422, "RFC 3339"),
        (b'{"server":"s","tool":"t","wanted_by":true}', 422, "RFC 3339"),
        (b'{"server":"s","server":"t","tool":"greet"}', 400, "duplicate"),
        (b'{"server":"s","tool":"t","arguments":{"n":9007199254740993.0}}', 400, "read as 9007199254740992.0"),
        (b'{"server":"s"}', 422, "required"),
        (b'{"server":"s","tool":"t","more":1}', 422, "not permitted"),
        (b'{"server":"s","tool":"t","arguments":[]}', 422, "dictionary"),
        (b'{"server":"s","tool":"t","valid_seconds":5}', 422, "greater"),
        (b'{"server":"s","tool":"t","wanted_by":"2020-01-01T00:00:00Z"}', 422, "seconds from now"),
        (b'{"server":"s","tool":"t","wanted_by":"2099-01-01T00:00:00"}', 422, "timezone"),
    ],
)
def test_a_body_that_is_wrong_is_refused_with_the_reason(
    hub: RunningHub, api: Api, body: bytes, status: int, word: str
) -> None:
    answer = httpx2.post(
        f"{hub.base}/api/v1/approvals",
        content=body,
        headers={"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"},
        trust_env=False,
    )
    assert answer.status_code == status, answer.text
    assert word in answer.json()["error"]["message"]


def test_a_field_that_is_wrong_is_named_as_it_was_sent(api: Api) -> None:
    call: dict[str, Any] = {"server": "s", "tool": "t", "arguments": {}}
    for field, value in {"wanted_by": "soon", "valid_seconds": 5, "server": "", "arguments": [], "more": 1}.items():
        status, found = api.send("POST", "/approvals", {**call, field: value})
        assert (status, found["error"]["field"]) == (422, field)
        assert not found["error"]["message"].startswith("Value error")
    past = {**call, "wanted_by": "2020-01-01T00:00:00Z"}  # refused by the use case, and not by its type
    assert api.send("POST", "/approvals", past)[1]["error"]["field"] == "wanted_by"
    assert api.send("POST", "/approvals?wait=61", call)[1]["error"]["field"] == "wait"


def test_the_operations_are_described(hub: RunningHub) -> None:
    document = httpx2.get(f"{hub.base}/api/v1/openapi.json", trust_env=False).json()
    assert sorted(document["paths"]) == [
        "/api/v1/approvals",
        "/api/v1/approvals/jwks.json",
        "/api/v1/approvals/{approval_id}",
        "/api/v1/approvals/{approval_id}/redeem",
    ]


def test_there_is_nothing_else_and_no_page(hub: RunningHub, api: Api) -> None:
    assert api.send("GET", "/nothing")[0] == 404
    assert httpx2.get(f"{hub.base}/api/v1/docs", trust_env=False).json()["error"]["code"] == "not_found"
