"""`python launch.py USER LIMITS COMMAND ARGUMENT…` replaces this process with the command, within limits as in
`NOFILE=8192,DATA=4294967296`, and as another user if `USER` is not empty.

Run by its path for each command that starts, and never imported, so it uses the standard library only.
"""

from __future__ import annotations

import os
import pwd
import resource
import sys


def main() -> None:
    """Set the limits, become the user for good, and replace this process with the command."""
    name, limits, command = sys.argv[1:4]
    for limit in filter(None, limits.split(",")):
        what, _, most = limit.partition("=")
        number = getattr(resource, f"RLIMIT_{what}")
        _, hard = resource.getrlimit(number)
        lowest = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        resource.setrlimit(number, (lowest, lowest))
    if name:
        user = pwd.getpwnam(name)
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        os.umask(0o077)
        os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    places = [""] if "/" in command else os.environ.get("PATH", os.defpath).split(":")
    why = "not found"
    for place in places:
        # `execvp` would import a module, and this user may not be able to read Python's own.
        try:
            os.execv(f"{place}/{command}" if place else command, sys.argv[3:])  # noqa: S606 - given by an administrator
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error.strerror or why
    sys.exit(f"{command}: {why}")


if __name__ == "__main__":
    main()
