"""Compiled modules are kept, for the tests and the many processes they start.

Where Python is told to write no bytecode (as images and CI machines like to), every hub and every
command would compile all it imports again, which takes longer than what it is started for. There,
bytecode goes into pytest's cache. Loaded with `-p tests.bytecode` before all else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.dont_write_bytecode and not sys.pycache_prefix:
    _place = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(_place)
    sys.dont_write_bytecode = False
