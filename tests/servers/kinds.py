"""What the table of servers is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.servers.speakers import Answers

BIG: Final = 3_000_000
"""Characters of a result that is called big."""


@dataclass(frozen=True)
class Step:
    """A call. In the arguments `{place}` stands for a directory that each client has for itself, and `{page}` for the
    address of a page on this machine."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    """How what it asks is answered; otherwise as `speakers.ANSWERS` says."""
    since: str = ""
    """The version of the protocol from which on there is what it asks."""
    newest: bool = False
    """Whether the server can do it in 2026-07-28 only: what the hub makes of it for others is compared with that."""
    differs: str = ""
    """Why the hub's outcome is another than the server's: a fault of the hub that is known."""


@dataclass(frozen=True)
class Server:
    """A server of the matrix, how it is started, and what is tried of it."""

    name: str
    package: str
    """As its registry has it; `NAME FILE` if its version is that of another file than the first that names it."""
    home: str
    """Where it is installed: `javascript`, or the name of the Python environment."""
    about: str = ""
    """What is said of it behind its name and version."""
    command: str = ""
    """`{bin}` stands for the programs of its environment, `{work}` for its directory, `{here}` for that of this file,
    `{port}` for a free port, `{chromium}` for the browser."""
    url: str = ""
    """The address, of one that is started once and speaks HTTP."""
    env: Mapping[str, str] = field(default_factory=dict)
    version: str = "2025-11-25"
    """The newest version of the protocol that it speaks."""
    protocol: str = ""
    """The setting of the hub (`server edit --protocol`)."""
    quick: bool = False
    """Whether the gate tries it."""
    prefix: str = ""
    call: tuple[Step, ...] = ()
    """Every tool that it lists is in one of these, but for those in `not_called`."""
    question: tuple[Step, ...] = ()
    cancel: tuple[Step, ...] = ()
    """What comes before; a call that takes a minute; what comes after, which must find what the first left."""
    cancel_ends: str = ""
    """Why a cancel ends the connection of its client. A direct client then makes another; that of a hub need not."""
    big: tuple[Step, ...] = ()
    not_called: Mapping[str, str] = field(default_factory=dict)
    """Tools that are not called, with the reason."""
    masks: Mapping[str, str] = field(default_factory=dict)
    """Patterns of what is another value at each call, as a time, with what stands for it."""
    prepare: Callable[[Path], None] = lambda place: None
    """Fills the directory of a client."""
    needs: str = ""
    """A program without which it is left out."""
