"""Compiled modules are kept, for the tests and the many processes they start.

Where Python is told to write no bytecode (as images and CI machines like to), every hub and every
command would compile all it imports again, which takes longer than what it is started for. Loaded
with `-p tests.bytecode` before all else.
"""

from __future__ import annotations

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
