"""Commands of `manage.py` in the environment of a hub, one after the other in one process: a start costs more than what
they do. Reads lines of JSON, the words of each, and writes what it printed; see `_manage` in `hub.py`."""

from __future__ import annotations

import io
import json
import os
import sys

import django


def main() -> None:
    """Until the input ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskhub.config.settings")
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    for line in sys.stdin:
        out = io.StringIO()
        answer: dict[str, str] = {}
        try:
            call_command(*json.loads(line), stdout=out)
            answer["out"] = out.getvalue()
        except Exception as error:  # noqa: BLE001 - whoever asked fails with it
            answer["error"] = f"{type(error).__name__}: {error}"
        connections.close_all()  # as after every command: the next may find another server
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
