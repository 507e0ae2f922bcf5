"""A private directory for the socket of the embedded Postgres: any user who can open the socket is its superuser."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 90
"""The most bytes of the directory's path. Systems allow 104 or 108 bytes for the path of a socket, including its
name."""
_PLAIN: Final = re.compile(r"/[A-Za-z0-9._/+-]*")
"""Paths without characters that are special in a shell, a list of directories or a URL, such as commas or quotes."""


class NotPrivate(Exception):
    """There is no directory for the socket that only its owner can enter. The message gives the reason."""


def place_for(database: Path) -> Path:
    """The directory for the socket of the server of `database`. It is `database` itself, which is private, or, if that
    path is too long or has special characters, a short path with a name derived from `database`. Raises
    `NotPrivate`."""
    if _fits(database):
        return database
    name = f"taskhub-{hashlib.sha256(os.fsencode(database)).hexdigest()[:16]}"
    for base in _bases():
        if _fits(base / name) and _nobody_else_moves_things_in(base):
            return base / name
    raise NotPrivate("There is no directory for the socket of Postgres: use a shorter data directory.")


def make_private(path: Path, owner: int) -> None:
    """Create the directory `path`, which only the user `owner` may enter. If it exists like that, it is accepted.
    Raises `NotPrivate` for anything else of that name, such as a symbolic link."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise NotPrivate(f"{path} is in the way: {error.strerror}. Remove it.") from None
    try:
        found = os.fstat(opened)
        if found.st_uid not in (os.geteuid(), owner) or stat.S_IMODE(found.st_mode) & 0o077:
            raise NotPrivate(f"{path} is not ours alone. Look who made it, and remove it.")
        if found.st_uid != owner:
            os.fchown(opened, owner, -1)
    finally:
        os.close(opened)


def is_private(path: Path, owner: int) -> bool:
    """Whether `path` is a directory that nobody but the user `owner` (and root) may enter."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not stat.S_IMODE(found.st_mode) & 0o077


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_BYTES and _PLAIN.fullmatch(str(path)) is not None


def _bases() -> Iterator[Path]:
    """Directories of this machine for the runtime files of processes, best first."""
    if os.geteuid() == 0:
        yield Path("/run")
    elif own := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(own)
    yield Path("/tmp")  # noqa: S108 - the directory that is made there is checked


def _nobody_else_moves_things_in(base: Path) -> bool:
    try:
        found = base.stat()
    except OSError:
        return False
    shared = stat.S_IMODE(found.st_mode) & 0o022
    ours = found.st_uid in (0, os.geteuid()) and (not shared or bool(found.st_mode & stat.S_ISVTX))
    return ours and os.access(base, os.W_OK | os.X_OK)
