"""Tables as they are after some use: thousands of tasks of which few are live, with questions and events."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from taskhub.store.statements import Named
from tests.factories import make_context, make_person, make_server, make_tenant, make_tool
from tests.store.flushing import superuser

TASKS = 8_000
CLIENTS = 40

# A minute apart and of each client in turn. The newest few are live; of every third client, sessions; every fourth
# task has asked something, and each has left three events.
_SEED = f"""
    INSERT INTO session (public_id, tenant_id, context_id, version)
    SELECT 's' || n || '-' || k, %(tenant)s, c, '2025-11-25'
    FROM unnest(%(contexts)s::bigint[]) WITH ORDINALITY AS w (c, n), generate_series(1, 5) k;

    INSERT INTO task (public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments, arguments_digest,
                      state, worker, lease_until, lease_epoch, result, error, is_error, created_at, updated_at,
                      ended_at, ttl_ms, expires_at, handle, session_id, idempotency_key, rerun_of_id, runnable_at)
    SELECT 'n' || n, CASE WHEN n %% 5 = 0 THEN %(other)s ELSE %(tenant)s END,
           CASE WHEN n %% 5 = 0 THEN %(stranger)s ELSE (%(contexts)s::bigint[])[1 + n %% {CLIENTS}] END, %(tool)s,
           'tool', CASE WHEN n %% 2 = 0 THEN '2025-11-25' ELSE '2026-07-28' END, '{{"text": "hello"}}', sha256(''),
           state, CASE WHEN state = 'working' THEN 'w' ELSE '' END,
           CASE WHEN state = 'working' THEN now() + interval '1 minute' END, 1,
           CASE WHEN state = 'finished' THEN '{{}}' END,
           CASE WHEN state = 'faulted' THEN '{{"code": -32603, "message": "boom"}}' END,
           state = 'finished' AND n %% 50 = 0, at, at,
           CASE WHEN state IN ('finished', 'faulted', 'cancelled') THEN at END, 86400000, at + interval '1 day', true,
           CASE WHEN n %% 3 = 0 THEN (SELECT min(id) FROM session) + n %% {CLIENTS} END,
           CASE WHEN n %% 10 = 0 THEN 'k' || n END,
           CASE WHEN n %% 100 = 0 AND n > 100 THEN (SELECT min(id) FROM task) + n - 100 END, at
    FROM generate_series(1, {TASKS}) n,
         LATERAL (SELECT now() - make_interval(mins => {TASKS} + 1 - n) AS at,
                         CASE WHEN n > {TASKS} - 90 THEN (ARRAY['queued', 'working', 'input_required'])[1 + n %% 3]
                              WHEN n %% 100 = 1 THEN 'faulted' WHEN n %% 100 = 2 THEN 'cancelled'
                              ELSE 'finished' END AS state) made
    ORDER BY n;

    INSERT INTO question (task_id, tenant_id, key, kind, params, audience, state, response, opened_at, closed_at)
    SELECT t.id, t.tenant_id, 'q', CASE WHEN t.id %% 8 = 0 THEN 'approval' ELSE 'elicitation' END, '{{"message": "?"}}',
           'operator', CASE WHEN t.ended_at IS NULL THEN 'open' ELSE 'answered' END,
           CASE WHEN t.ended_at IS NOT NULL THEN '{{}}' END, t.created_at, t.ended_at
    FROM task t WHERE t.id %% 4 = 0 OR t.state = 'input_required' ORDER BY t.id;

    INSERT INTO decision (question_id, actor, verdict, arguments_digest, door)
    SELECT id, 'mia', 'approve', sha256(''), 'web' FROM question WHERE state = 'answered';

    INSERT INTO attempt (task_id, number, worker, outcome) SELECT id, 1, 'w', 'done' FROM task;

    INSERT INTO result_read (task_id, context_id, first_at, last_at, count)
    SELECT id, context_id, ended_at, ended_at, 1 FROM task WHERE result IS NOT NULL OR error IS NOT NULL;

    INSERT INTO event (tenant_id, task_id, context_id, action, actor, door, target, at, xid)
    SELECT t.tenant_id, t.id, t.context_id, (ARRAY['task.created', 'task.claimed', 'task.finished'])[step], 'mia',
           'web', t.tool_name, t.created_at + make_interval(secs => step), 1000 + t.id
    FROM task t, generate_series(1, 3) step ORDER BY t.id, step;

    INSERT INTO stream (session_id, kind, task_id)
    SELECT session_id, 'call', id FROM task WHERE session_id IS NOT NULL AND ended_at IS NULL;

    INSERT INTO outbound (task_id, question_id, method, params, stream_id)
    SELECT q.task_id, q.id, 'elicitation/create', '{{}}', (SELECT s.id FROM stream s WHERE s.task_id = q.task_id)
    FROM question q WHERE q.state = 'open';

    INSERT INTO worker (name, host, pid, version, slots) VALUES ('w', 'h', 1, '1', 4);
"""


class World:
    """A tenant that was used for a week, another beside it, and typical values for any statement."""

    def __init__(self) -> None:
        tenant, other = make_tenant(), make_tenant()
        tool = make_tool(make_server(tenant))
        self.person = make_person("admin", tenant, groups=["ops"])
        contexts = [make_context(tenant).pk for _ in range(CLIENTS)]
        with superuser(autocommit=True) as raw:
            raw.execute("SET session_replication_role = replica")
            given = {
                "tenant": tenant.pk,
                "other": other.pk,
                "contexts": contexts,
                "stranger": make_context(other).pk,
                "tool": tool.id,
            }
            for part in filter(str.strip, _SEED.split(";\n")):
                raw.execute(part, given)
            raw.execute("ANALYZE")
            middle = raw.execute("SELECT id FROM task ORDER BY id OFFSET %s LIMIT 1", (TASKS // 2,)).fetchone()
            event = raw.execute("SELECT max(id), max(xid) FROM event").fetchone()
            question = raw.execute("SELECT min(id) FROM question WHERE kind = 'approval'").fetchone()
            newest = raw.execute("SELECT max(id) FROM task").fetchone()
            session = raw.execute("SELECT min(id) FROM session").fetchone()
        assert middle is not None
        assert newest is not None
        assert session is not None
        assert event is not None
        assert question is not None
        now = datetime.now(UTC)
        self._typical: dict[str, Any] = {
            "tenant": tenant.pk,
            "context": contexts[0],
            "task": middle[0],
            "origin": middle[0] - 1,
            "question": question[0],
            "event": event[0],
            "session": session[0],
            "user": self.person.user_id,
            "before": middle[0],
            "most": 50,
            "looked_at": 500,
            "above": newest[0] - 400,
            "public_id": f"n{TASKS // 2}",
            "key": "k10",
            "revision": "2025-11-25",
            "since": now - timedelta(hours=1),
            "until": now,
            "low": 0,
            "high": event[0],
            "to_xid": event[1],
            "worker": "w",
            "retention_days": 3,
            "who": '{"name": "x", "door": "cli"}',
        }

    def values(self, statement: Named) -> list[dict[str, Any]]:
        """One set or more: what people usually ask, and each condition that may be left out for itself."""
        typical = {
            # What is encrypted has no usual value; its parameter may have the name of another statement's number.
            name: _any(type_) if type_ == "bytea" else self._typical.get(name, _any(type_))
            for name, type_ in statement.params.items()
        }
        optional = _OPTIONAL.findall(statement.sql.decode())
        numbers = {int(number) - 1 for number in optional}
        names = [name for n, name in enumerate(statement.params) if n in numbers]
        if not names:
            return [typical]
        bare = {**typical, **dict.fromkeys(names)}
        alone = [{**bare, name: typical[name]} for name in names]
        for partner, partners in _WITH.get(statement.name, {}).items():
            for values in alone:
                if any(values[name] is not None for name in partners):
                    values[partner] = typical[partner]
        return [bare, *alone, typical]


_WITH = {
    "task_page": {"above": {"tool", "since", "until", "errors", "words"}, "state": {"people"}},
    "tab_counts": {"above": {"tool", "since", "until"}},
    "waiting_count": {"above": {"tool", "since", "until"}},
    "older_events": {"task": {"category", "door", "actor", "address", "text"}},
    "newer_events": {"task": {"category", "door", "actor", "address", "text"}},
}
"""What no index answers is asked of a part only."""

_OPTIONAL = re.compile(r"\(\$(\d+)::[a-z0-9\[\] ]+ IS NULL OR")
_ANY = {
    "bigint": 1,
    "int": 1,
    "float8": 1.0,
    "text": "finished",
    "boolean": True,
    "json": "[]",
    "jsonb": "{}",
    "timestamptz": datetime.now(UTC),
    "bytea": b"",
}


def _any(type_: str) -> Any:
    return [_ANY[type_[:-2]]] if type_.endswith("[]") else _ANY[type_]
