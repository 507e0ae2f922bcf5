"""How commands are kept from what belongs to the hub: as another user, or behind a wrapper."""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from pathlib import Path

from django.conf import settings

from taskhub.core.errors import Unavailable
from taskhub.lib import launch


def isolated(command: list[str]) -> list[str]:
    """The words to start the command by, with the wrapper and the user of the settings. Raises `Unavailable` if the
    settings cannot be followed: then the command is not started at all."""
    user = settings.TASKHUB_COMMAND_USER
    try:
        words = [*shlex.split(settings.TASKHUB_COMMAND_WRAPPER), *command]
    except ValueError as error:
        raise Unavailable(f"TASKHUB_COMMAND_WRAPPER cannot be read: {error}") from None
    if not user:
        return words
    try:
        own = pwd.getpwnam(user).pw_uid == os.geteuid()
    except KeyError:
        raise Unavailable(f"TASKHUB_COMMAND_USER names {user}, and there is no such user") from None
    if own:
        return words
    if os.geteuid() != 0:
        raise Unavailable(f"TASKHUB_COMMAND_USER names {user}, and only a worker that is root can start a command so")
    return [sys.executable, "-I", "-S", str(Path(launch.__file__)), user, *words]
