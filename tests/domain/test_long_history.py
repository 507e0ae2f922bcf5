"""What is read often, and what is tidied every hour, costs no more after 200,000 tasks than after a thousand.

Counted are the rows of `task` that Postgres looks at, by whole scans and through indexes: what a filter throws
away costs as much as what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection

from taskhub.domain.clients.reads import COUNT_CAP, LOOKED_AT, client_detail, client_page
from taskhub.domain.tasks.handles import LOOKED_AT as NEWEST
from taskhub.domain.tasks.handles import handed_out
from taskhub.domain.tasks.listing import TABS, TaskFilter, tab_counts, task_page
from taskhub.domain.tasks.stats import numbers
from taskhub.domain.tasks.sweep import purge
from taskhub.store.models import Task
from tests.factories import make_context, make_server, make_tenant, make_tool
from tests.store.flushing import superuser
from tests.store.touched import rows_looked_at

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

TASKS = 200_000
CLIENTS = 20
PAGE = 51
REVISION = "2025-11-25"

# A minute apart and of each client in turn, the newest a minute ago; all ended, and forgotten on the wire a second
# later, those of every second client in 2025-11-25. Named by their number.
_HISTORY = f"""
    INSERT INTO task (public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments, arguments_digest,
                      state, result, is_error, created_at, updated_at, ended_at, ttl_ms, expires_at, handle)
    SELECT 'n' || n, %(tenant)s, (%(contexts)s::bigint[])[1 + n %% {CLIENTS}], %(tool)s, 'tool',
           CASE WHEN n %% 2 = 0 THEN '{REVISION}' ELSE '2026-07-28' END, '{{}}', sha256(''), 'finished', '{{}}', false,
           at, at, at, 1000, at + interval '1 second', true
    FROM generate_series(1, {TASKS}) n, LATERAL (SELECT now() - make_interval(mins => {TASKS} + 1 - n) AS at) made
    ORDER BY n
"""
OLDEST = ("n20", "n40", "n60")
"""Of the first client, which speaks 2025, from the far end of its history."""

LATE = "n80"
"""Of the same client; past its time to live, but nobody ran it yet."""


class History:
    """A tenant that was used for a long time."""

    def __init__(self) -> None:
        self.tenant = make_tenant()
        tool = make_tool(make_server(self.tenant))
        self.contexts = [make_context(self.tenant).pk for _ in range(CLIENTS)]
        with superuser(autocommit=True) as raw:
            raw.execute("SET session_replication_role = replica")
            raw.execute(_HISTORY, {"tenant": self.tenant.pk, "contexts": self.contexts, "tool": tool.id})
            raw.execute("UPDATE task SET is_error = true WHERE public_id = ANY (%s)", (list(OLDEST),))
            raw.execute(
                "UPDATE task SET expires_at = CASE public_id WHEN %s THEN NULL ELSE now() + interval '1 day' END,"
                " ttl_ms = CASE public_id WHEN %s THEN NULL ELSE 2592000000 END WHERE public_id = ANY (%s)",
                (OLDEST[0], OLDEST[0], list(OLDEST)),
            )
            raw.execute(
                "UPDATE task SET state = 'queued', ended_at = NULL, result = NULL WHERE public_id = %s", (LATE,)
            )
            raw.execute(
                "UPDATE task SET expires_at = now() + interval '1 day', ttl_ms = 2592000000 WHERE context_id = %s",
                (self.contexts[2],),
            )
            raw.execute("UPDATE task SET left_at = ended_at WHERE context_id = %s", (self.contexts[3],))
            raw.execute("VACUUM ANALYZE task")

    def number(self, public_id: str) -> int:
        """The internal id of a task."""
        return int(Task.objects.get(public_id=public_id).pk)

    @property
    def id(self) -> int:
        return int(self.tenant.pk)


def test_reading_and_tidying_cost_the_same_however_long_the_history() -> None:
    history = History()
    home, (context, _, busy, *_) = history.id, history.contexts
    lists = [TaskFilter(tab=tab) for tab in ("", *TABS, "people", "client", "unfetched")]
    counted = COUNT_CAP + LOOKED_AT
    near_the_end = history.number("n1000")
    works: dict[str, tuple[Callable[[], object], int]] = {
        "nothing to purge": (lambda: purge(retention_days=365), 100),
        "tasks/list": (lambda: handed_out(context, [REVISION], None, PAGE), NEWEST + 100),
        "tasks/list, its end": (lambda: handed_out(context, [REVISION], near_the_end, PAGE), NEWEST + 100),
        "tasks/list of a busy client": (lambda: handed_out(busy, [REVISION], None, PAGE), NEWEST + 100),
        "tasks/list of one session": (lambda: handed_out(context, [REVISION], None, PAGE, session_id=1), 100),
        "tabs": (lambda: tab_counts(home, TaskFilter()), 3_000),
        **{f"the list, {wanted.tab or 'all'}": (partial(task_page, home, wanted), 100) for wanted in lists},
        "numbers of the overview": (lambda: numbers(home), 1_500),
        "clients": (lambda: client_page(home), CLIENTS * (counted + 10)),
        "a client": (lambda: client_detail(home, context), counted + 10),
    }
    for work, _ in works.values():
        for _ in range(6):
            work()  # from the sixth time on Postgres may plan a statement without its values
    looked = {name: rows_looked_at("task", work) for name, (work, _) in works.items()}
    assert {name: rows for name, rows in looked.items() if rows > works[name][1]} == {}

    listed = [task.public_id for _, task in handed_out(context, [REVISION], None, PAGE)]
    assert listed == [LATE, "n60", "n40", "n20"]
    assert [task.public_id for _, task in handed_out(context, [REVISION], history.number(LATE), 2)] == ["n60", "n40"]
    errors = task_page(home, TaskFilter(tab="error")).rows
    assert [row.public_id for row in errors] == ["n60", "n40", "n20"]
    assert {count.tab: (count.count, count.more) for count in tab_counts(home, TaskFilter())} == {
        **dict.fromkeys(TABS, (0, False)),
        "error": (3, False),
        "queued": (1, False),
        "finished": (1_000, True),
    }
    assert {client.tasks_text for client in client_page(home).rows} == {"1,000+"}

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM task WHERE ended_at < now() - interval '138 days'")
        (old,) = cursor.fetchone()
    assert old > 1_000
    # Each row deleted is looked at a few times: found, locked, deleted.
    assert rows_looked_at("task", lambda: purge(retention_days=138)) <= 5_000
    assert purge(retention_days=138) == old - 1_000
    assert purge(retention_days=138) == 0
