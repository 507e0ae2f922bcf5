"""Collects static files if they have changed. The build of a container image runs `python -m taskhub.cli.static`."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

import django
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command


def collect_if_changed() -> None:
    """Run `collectstatic`, unless the files are the same as at the last run. Processes that start at the same time run
    it one after the other, because they would remove each other's files."""
    # Compares contents, not times: container images round the times of files, or drop them.
    fingerprint = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            digest = hashlib.sha256(Path(storage.path(path)).read_bytes()).hexdigest()
            fingerprint.update(f"{path}:{digest}\n".encode())
    root = Path(settings.STATIC_ROOT)
    stamp = root / ".stamp"

    def collected() -> bool:
        return stamp.exists() and stamp.read_text() == fingerprint.hexdigest()

    if collected():
        return
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not collected():
            call_command("collectstatic", verbosity=0, interactive=False)
            stamp.write_text(fingerprint.hexdigest())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskhub.config.settings")
    django.setup()
    collect_if_changed()
