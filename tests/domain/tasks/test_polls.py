"""When a task was last polled: told now and then, for many tasks at once."""

from __future__ import annotations

from taskhub.domain.tasks.reads import store_polls
from taskhub.store.models import Task
from tests.domain import kit
from tests.domain.kit import World


def polled(*tasks: int) -> list[float | None]:
    found = Task.objects.in_bulk(tasks)
    return [at.timestamp() if (at := found[task].last_polled_at) else None for task in tasks]


def test_the_latest_poll_of_each_live_task_is_kept_and_none_of_another(world: World) -> None:
    ended = kit.create(world).id
    kit.finish(kit.claim_one())
    first, second, other = (kit.create(world).id for _ in range(3))
    store_polls({first: 1_000.0, second: 2_000.0, ended: 3_000.0})
    assert polled(first, second, other, ended) == [1_000.0, 2_000.0, None, None]
    store_polls({first: 900.0, second: 2_500.0})
    assert polled(first, second, other) == [1_000.0, 2_500.0, None]
