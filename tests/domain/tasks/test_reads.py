"""Who was given what came of a task: counted for each task and client, told for many of them at once."""

from __future__ import annotations

from functools import partial

from taskhub.domain.tasks.reads import Batch, Read, Reads, store_reads
from taskhub.domain.tasks.sweep import purge
from taskhub.store.models import ResultRead
from tests.domain import kit
from tests.domain.kit import World


def on_record() -> Batch:
    return {
        (row.task_id, row.context_id): Read(row.first_at.timestamp(), row.last_at.timestamp(), row.count)
        for row in ResultRead.objects.all()
    }


def ended(world: World) -> int:
    task = kit.create(world).id
    kit.finish(kit.claim_one())
    return task


def test_reads_add_up_for_each_task_and_client(world: World) -> None:
    mine, other = world.context.pk, kit.another_client(world).context.pk
    first, second = ended(world), ended(world)
    store_reads({(first, mine): Read(1_000.0, 1_002.0, 3), (second, mine): Read(1_001.0, 1_001.0)})
    # Of another web process, whose batch is stored later and holds an earlier read.
    store_reads({(first, mine): Read(999.0, 1_001.0, 2), (first, other): Read(1_003.0, 1_003.0)})
    assert on_record() == {
        (first, mine): Read(999.0, 1_002.0, 5),
        (second, mine): Read(1_001.0, 1_001.0, 1),
        (first, other): Read(1_003.0, 1_003.0, 1),
    }


def test_they_go_with_their_task_and_what_is_gone_holds_up_no_other(world: World) -> None:
    mine, gone = world.context.pk, ended(world)
    store_reads({(gone, mine): Read(1_000.0, 1_000.0)})
    assert purge(retention_days=-1) == 1
    assert on_record() == {}
    kept = ended(world)
    store_reads({(gone, mine): Read(1_000.0, 1_000.0), (kept, mine): Read(1_000.0, 1_000.0)})
    assert on_record() == {(kept, mine): Read(1_000.0, 1_000.0)}


def test_web_processes_that_store_the_same_tasks_do_not_wait_for_each_other_in_a_ring(world: World) -> None:
    mine = world.context.pk
    tasks = [ended(world) for _ in range(20)]
    crew = kit.Crew(2)
    try:
        for _ in range(20):
            batches = ({(task, mine): Read(1_000.0, 1_000.0) for task in order} for order in (tasks, tasks[::-1]))
            assert crew.race(*(partial(store_reads, batch) for batch in batches)) == [None, None]
    finally:
        crew.close()
    assert {read.count for read in on_record().values()} == {40}


def test_what_cannot_be_stored_comes_with_the_next_batch() -> None:
    reads = Reads()
    reads.note(1, 7)
    reads.note(1, 7)
    batch = reads.take()
    assert reads.take() == {}
    reads.note(1, 7)
    reads.put_back(batch)
    again = reads.take()
    assert again[1, 7].count == 3
    assert again[1, 7].first <= batch[1, 7].last <= again[1, 7].last


def test_no_more_is_kept_than_there_is_room_for() -> None:
    reads = Reads(most=2)
    for task in (1, 2, 3, 1):
        reads.note(task, 7)
    assert {key: read.count for key, read in reads.take().items()} == {(1, 7): 2, (2, 7): 1}
