"""Static files, collected once per change."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command


def collect_if_changed() -> None:
    """Run `collectstatic` unless the files are as they were at the last run."""
    fingerprint = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            source = Path(storage.path(path))
            stat = source.stat()
            fingerprint.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    stamp = Path(settings.STATIC_ROOT) / ".stamp"
    if stamp.exists() and stamp.read_text() == fingerprint.hexdigest():
        return
    call_command("collectstatic", verbosity=0, interactive=False)
    stamp.write_text(fingerprint.hexdigest())
