"""What the Python scripts here share: one clear line where a client got something else than a user would expect."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
SECONDS = 180


class Difference(Exception):
    """Something is not as expected."""


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Difference(f"{what}: {found!r}, expected {wanted!r}")


def expect_true(what: str, found: object) -> None:
    if not found:
        raise Difference(what)


async def until(what: str, look: Callable[[], Awaitable[T]]) -> T:
    """What `look` finds, as soon as that is anything."""
    for _ in range(150):
        if found := await look():
            return found
        await asyncio.sleep(0.1)
    raise Difference(f"{what}: not within 15 s")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside the groups that task groups make."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def run(name: str, script: Callable[[str, list[str]], Awaitable[None]]) -> None:
    """`SCRIPT URL TOKEN [TOKEN]`: exit 0 when all is as expected, else 1."""
    url, *tokens = sys.argv[1:]

    async def limited() -> None:
        try:
            async with asyncio.timeout(SECONDS):
                await script(url, tokens)
        except TimeoutError as late:
            raise Difference(f"not done within {SECONDS} s") from late

    try:
        asyncio.run(limited())
    except Exception as error:  # noqa: BLE001 - whatever a client raises is a difference
        traceback.print_exc()
        for leaf in _leaves(error):
            print(f"{name}: {leaf or repr(leaf)}")
        sys.exit(1)
    print(f"{name}: all as expected")
