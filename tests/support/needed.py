"""What some tests need and not every machine has. They are skipped there, in words; not in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def is_needed(what: str) -> bool:
    """Whether nothing may be left out here for want of it: `TASKHUB_TESTS_NEED_ALL=1`, or one such variable for it
    alone."""
    return any(os.environ.get(f"TASKHUB_TESTS_NEED_{name}") == "1" for name in ("ALL", what.upper()))


def program(what: str, *names: str) -> Path:
    """The first of these that is installed, in /usr/sbin too, which is on few people's PATH. Without any the test is
    skipped, or fails where `what` they are `is_needed`."""
    places = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin"
    for name in names:
        if found := shutil.which(name, path=places):
            return Path(found)
    missing = f"no {what} here: looked for {', '.join(names)}"
    if is_needed(what):
        pytest.fail(missing)
    pytest.skip(missing)
