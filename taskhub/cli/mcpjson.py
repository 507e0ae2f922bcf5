"""Reads a file of servers for a command, and asks for the values of its placeholders."""

from __future__ import annotations

import getpass
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.core.management.base import CommandError

from taskhub.core.errors import TaskHubError
from taskhub.domain.catalogue.importing import read_servers
from taskhub.domain.catalogue.server_files import Placeholder, ServersFile, supposed_values
from taskhub.lib.signs import spelled

MAX_FILE: Final = 16_777_216
"""The most bytes of a file that a command reads, far more than a tenant's configuration has."""


def read_file(path: str, *, way: str = "", name: str = "") -> ServersFile:
    """The file's servers; `way` and `name` as for `read_servers`. Raises `CommandError`."""
    try:
        return read_servers(text_of(path), way=way, name=name)
    except TaskHubError as error:
        raise CommandError(f"{path}: {error.message}") from None


def values_for(file: ServersFile, path: str | None) -> dict[str, str]:
    """A value for each placeholder of the file. It is taken from the file at `path`, which has lines `NAME=VALUE`; else
    typed at a terminal; else it is the placeholder's default. It never comes from the environment, which may contain
    secrets of other programs. Raises `CommandError`, which names the placeholders that need a value and have none."""
    values = {} if path is None else _lines(path)
    lacking = [placeholder for placeholder in file.placeholders if placeholder.key not in values]
    if path != "-" and sys.stdin is not None and sys.stdin.isatty():
        return {**values, **{placeholder.key: _asked(placeholder) for placeholder in lacking}}
    if needed := [placeholder for placeholder in lacking if placeholder.needed and not placeholder.default]:
        names = ", ".join(f"{spelled(asked.key)}{_about(asked)}" for asked in needed)
        raise CommandError(
            f"Values are needed for {names}. Give them as lines NAME=VALUE in a file with --values FILE, or run this in"
            " a terminal, which asks for them. They are not taken from the environment."
        )
    return {**values, **{placeholder.key: placeholder.default for placeholder in lacking}}


def supposed_values_for(file: ServersFile, path: str | None) -> dict[str, str]:
    """As `values_for`, but never asks: a placeholder without a value gets a made-up valid one."""
    return supposed_values(file, {} if path is None else _lines(path))


def _asked(placeholder: Placeholder) -> str:
    ask = getpass.getpass if placeholder.hidden else input
    notes = [f"one of {', '.join(placeholder.choices)}"] if placeholder.choices else []
    notes += [f"empty: {placeholder.default}"] if placeholder.default else []
    notes += [] if placeholder.needed or placeholder.default else ["may be empty"]
    note = f" [{spelled('; '.join(notes))}]" if notes else ""
    try:
        value = ask(f"{spelled(placeholder.key)}{_about(placeholder)}{note}: ").strip() or placeholder.default
    except (EOFError, KeyboardInterrupt):
        raise CommandError(f"There is no value for {spelled(placeholder.key)}.") from None
    if not value and placeholder.needed:
        raise CommandError(f"There is no value for {spelled(placeholder.key)}.")
    return value


def _about(placeholder: Placeholder) -> str:
    return f" ({spelled(placeholder.description)})" if placeholder.description else ""


def _lines(path: str) -> Mapping[str, str]:
    lines = [line.strip() for line in text_of(path).splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    if any(not equals for _, equals, _ in pairs):
        raise CommandError(f"{path}: expected lines NAME=VALUE.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def text_of(path: str, *, regular: bool = False) -> str:
    """The text of a file, or of standard input if `path` is `-`; `MAX_FILE` bytes at most. With `regular`, a pipe or
    device is refused, because it may never end. Raises `CommandError`."""
    if path == "-":
        text = sys.stdin.read(MAX_FILE + 1)
        if len(text) > MAX_FILE:
            raise CommandError(f"Standard input has more than {MAX_FILE:,} characters.")
        return text
    try:
        return bytes_of(Path(path).expanduser(), MAX_FILE, regular=regular).decode()
    except (OSError, ValueError) as error:
        why = problem_of(error)
        more = " Give `-` to read from standard input." if isinstance(error, NoFile) else ""
        raise CommandError(f"{path} cannot be read: {why}.{more}") from None


class NoFile(OSError):
    """The path is not a regular file but, for example, a pipe, which may never end."""


def bytes_of(path: Path, most: int, *, regular: bool = True) -> bytes:
    """The content of the file, which with `regular` must be a regular file. Raises `NoFile` if it is not, another
    `OSError`, or `ValueError` for more than `most` bytes. `problem_of` describes each of these errors."""
    # Without O_NONBLOCK, opening a pipe would wait for ever if nobody writes to it.
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if regular else 0))
    try:
        if regular and not stat.S_ISREG(os.fstat(opened).st_mode):
            raise NoFile
        with open(opened, "rb", closefd=False) as file:
            found = file.read(most + 1)
    finally:
        os.close(opened)
    if len(found) > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    return found


def problem_of(error: OSError | ValueError) -> str:
    """Why a file could not be read, without a full stop."""
    if isinstance(error, NoFile):
        return "it is no regular file"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
