"""Starts commands as another user or through a wrapper, so that they cannot reach data of the hub, and with resource
limits."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import sys
from pathlib import Path

from django.conf import settings

from taskhub.core.errors import Unavailable
from taskhub.lib import launch


def isolated(command: list[str]) -> list[str]:
    """The command, extended by the wrapper, the user and the limits of the settings. Raises `Unavailable` if the
    settings cannot be applied: then the command must not be started."""
    try:
        words = [*shlex.split(settings.TASKHUB_COMMAND_WRAPPER), *command]
    except ValueError as error:
        raise Unavailable(f"TASKHUB_COMMAND_WRAPPER cannot be read: {error}") from None
    if len(words) > len(command) and shutil.which(words[0]) is None:
        raise Unavailable(f"TASKHUB_COMMAND_WRAPPER begins with {words[0]}: No such file, or it may not be run")
    return [sys.executable, "-I", "-S", str(Path(launch.__file__)), _other_user(), _limits(), *words]


def _other_user() -> str:
    """The user to become; empty if the worker is that user already."""
    user: str = settings.TASKHUB_COMMAND_USER
    if not user:
        return ""
    try:
        own = pwd.getpwnam(user).pw_uid == os.geteuid()
    except KeyError:
        raise Unavailable(f"TASKHUB_COMMAND_USER names {user}, and there is no such user") from None
    if own:
        return ""
    if os.geteuid() != 0:
        raise Unavailable(f"TASKHUB_COMMAND_USER names {user}, and only a worker that is root can start a command so")
    return user


def _limits() -> str:
    """The limits of each process, as `lib.launch` takes them."""
    found = {
        "NOFILE": settings.TASKHUB_COMMAND_OPEN_FILES,
        "NPROC": settings.TASKHUB_COMMAND_PROCESSES,
        "DATA": settings.TASKHUB_COMMAND_MEMORY_MIB * 1_048_576,
    }
    return ",".join(f"{what}={most}" for what, most in found.items() if most)
