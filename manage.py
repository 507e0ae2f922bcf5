#!/usr/bin/env python
"""TaskHub's command line: `manage.py up` runs everything."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run one management command."""
    # 1,500 modules are a heap of objects that stay. Looking through them for cycles every 700 new ones was a sixth
    # of a start; what a request leaves behind goes by its reference count.
    gc.set_threshold(50_000, 20, 100)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskhub.config.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("TaskHub's dependencies are missing here: start it with `uv run manage.py up` (pip install uv).")
    # The data directory decides the database and the key, and settings are read before
    # a command sees its options.
    for place, argument in enumerate(sys.argv):
        if argument == "--data-dir" and place + 1 < len(sys.argv):
            os.environ["TASKHUB_DATA_DIR"] = sys.argv[place + 1]
        elif argument.startswith("--data-dir="):
            os.environ["TASKHUB_DATA_DIR"] = argument.partition("=")[2]
    from django.core.exceptions import ImproperlyConfigured

    try:
        try:
            execute_from_command_line(sys.argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has left, as `head` does. SIGPIPE itself stays ignored: it would end servers whose
        # clients leave.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())  # or the interpreter would complain when it flushes them
        sys.exit(128 + signal.SIGPIPE)
    except ImproperlyConfigured as error:
        sys.exit(f"taskhub: {error}")


if __name__ == "__main__":
    main()
