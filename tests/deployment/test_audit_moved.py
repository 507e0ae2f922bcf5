"""A database that moves by dump into a new cluster: what `audit verify` says there, and how the log goes on."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Command
from tests.support.clusters import DEBIAN_15, Cluster, embedded, two_clusters

pytestmark = pytest.mark.processes

_counted = itertools.count()


@pytest.fixture(scope="module", params=["embedded", "debian"])
def clusters(request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, Cluster]]:
    """The one with a hub that has been in service for a while, whose log is verified but for its newest event, which is
    not sealed either; and another, new one with all of that out of a dump."""
    if request.param == "debian" and not DEBIAN_15.exists():
        pytest.skip("Debian's Postgres 15 is not installed")
    with two_clusters(DEBIAN_15 if request.param == "debian" else embedded()) as (old, new):
        place = old.directory
        assert manage(place, old, "migrate", "--verbosity", "0")[0] == 0
        old.count_to(20_000)
        for name in ("ada", "bob"):
            assert manage(place, old, "token", "create", name)[0] == 0
        code, out, err = manage(place, old, "audit", "verify")
        assert (code, out.startswith("Intact: "), err) == (0, True, "")
        assert manage(place, old, "token", "create", "cleo")[0] == 0
        new.take_dump_of(old)
        yield old, new


def identifier(cluster: Cluster) -> int:
    """By which Postgres tells it from others."""
    with cluster.connect() as raw:
        found = raw.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    assert found is not None
    return int(found[0])


def manage(place: Path, cluster: Cluster, *arguments: str) -> tuple[int, str, str]:
    """A command at that cluster, as a process."""
    key = {"DATABASE_URL": cluster.url, "SECRET_KEY": os.environ["SECRET_KEY"]}
    with Command(place / f"command-{next(_counted)}", *arguments, environment=key) as command:
        return command.code(), command.out, command.err


def test_a_log_that_moved_by_dump_is_not_proven_until_the_move_is_on_record(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    old, new = clusters

    def run(*arguments: str) -> tuple[int, str, str]:
        return manage(tmp_path, new, *arguments)

    # The service works, and what it writes has ids that were sealed long ago.
    assert run("token", "create", "dora")[0] == 0
    was, is_ = identifier(old), identifier(new)
    with new.connect() as here:
        late = here.execute("SELECT max(id) FROM event").fetchone()
    assert late is not None
    for form in ((), ("--since-mark",), ("--full",)):
        code, out, err = run("audit", "verify", *form)
        assert (code, out) == (1, "")
        assert err.startswith(
            "AUDIT NOT PROVEN: the database is in another cluster than it was (system identifier"
            f" {is_}, before {was}); transaction ids jumped back: the log was sealed up to "
        )
        assert "can never be sealed by its position. If it was restored from a dump or upgraded by pg_upgrade:" in err
        assert "`manage.py audit moved` puts that on record, and the log goes on.\n" in err
    code, out, _ = run("doctor")
    assert code == 1
    assert re.search(
        r"^FAIL audit seals: the database is in another cluster than it was .*`manage.py audit moved`", out, re.M
    )

    # The documented way forward.
    code, out, err = run("audit", "moved")
    assert (code, err) == (0, "")
    assert re.match(rf"\d+ events in \d+ seals came here intact\. The log goes on in cluster {is_}, behind", out)
    assert f", entries {late[0]} to " in out
    for form in ((), ("--since-mark",), ("--full",)):
        code, out, err = run("audit", "verify", *form)
        assert (code, err) == (0, ""), form
        assert re.match("Unchanged since entry" if "--since-mark" in form else r"Intact: \d+ events in", out)
    with new.connect() as here:
        # All that there was, late or unsealed, has its seal, and nothing but its place is another.
        unsealed = "SELECT count(*) FROM event WHERE id <= %s AND id <> ALL (SELECT unnest(event_ids) FROM seal)"
        assert here.execute(unsealed, late).fetchone() == (0,)
    # And so does what comes now.
    assert run("token", "create", "emil")[0] == 0
    assert "; 0 events are not sealed yet." in run("audit", "verify")[1]
    assert run("audit", "moved")[0] == 1


def test_what_was_changed_on_the_way_is_found_before_the_log_goes_on(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """The role that owns the table can do it, with the guard switched off; as could whoever has the dump."""
    _, new = clusters
    moved = Cluster(new.programs)
    try:
        moved.take_dump_of(new)
        with moved.connect() as raw:
            raw.execute("ALTER TABLE event DISABLE TRIGGER event_append_only")
            raw.execute("UPDATE event SET actor = 'somebody else' WHERE id = (SELECT min(id) FROM event)")
            raw.execute("ALTER TABLE event ENABLE TRIGGER event_append_only")
            changed = raw.execute("SELECT min(id) FROM event").fetchone()
        assert changed is not None
        code, _, err = manage(tmp_path, moved, "audit", "moved")
        assert (code, err) == (
            1,
            f"CommandError: AUDIT BROKEN: event {changed[0]} was changed. The log stays as it is.\n",
        )
    finally:
        moved.stop()
