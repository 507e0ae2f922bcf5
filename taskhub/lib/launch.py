"""Runs a command as another user, in the place of this process: `python launch.py USER COMMAND ARGUMENT…`.

Run by its path and never imported, since it knows nothing but the standard library and starts for each command.
"""

from __future__ import annotations

import os
import pwd
import sys


def main() -> None:
    """Become the user, for good, and the command."""
    user = pwd.getpwnam(sys.argv[1])
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(0o077)
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    command = sys.argv[2]
    places = [""] if "/" in command else os.environ.get("PATH", os.defpath).split(":")
    why = "not found"
    for place in places:
        # Not `execvp`, which imports a module: this user may not be able to read Python's own.
        try:
            os.execv(f"{place}/{command}" if place else command, sys.argv[2:])  # noqa: S606 - given by an administrator
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error.strerror or why
    sys.exit(f"{command}: {why}")


if __name__ == "__main__":
    main()
