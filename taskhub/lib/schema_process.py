"""The process that checks values against schemas: `python -I schema_process.py`, started by `lib.schemas`.

It reads two lengths (`HEAD`), a schema and a value as JSON from standard input. It writes to standard output `f` if the
value fits the schema. Otherwise it writes a letter and a line with the reason: `m` if the value does not fit, `u` if it
could not be checked. It imports the standard library and `jsonschema_rs` only, nothing of TaskHub.
"""

from __future__ import annotations

import json
import select
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs

CHECK_SECONDS: Final = 5.0
"""The longest time of one check."""
CHECKER_IDLE_SECONDS: Final = 60
"""The time without a check after which the process ends by itself."""
CHECKER_MEMORY: Final = 512 * 1_048_576
BACKTRACK_LIMIT: Final = 100_000
"""The most backtracking steps of one pattern on one string."""
PATTERN_BYTES: Final = 1_048_576
"""The largest size of one compiled pattern."""
MAX_COMPILED: Final = 200
MAX_WORDS: Final = 300

HEAD: Final = struct.Struct(">II")
FITS, MISFIT, UNCHECKED = b"f", b"m", b"u"


def validator(schema: Any) -> Any:
    """The compiled schema. References to other documents are never fetched. Raises `ValueError` with the reason for a
    schema that cannot be compiled."""
    options = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=BACKTRACK_LIMIT, size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES
    )
    return jsonschema_rs.validator_for(schema, pattern_options=options, retriever=_refuse, validate_formats=False)


def short(words: str) -> str:
    """`words` on one line of at most `MAX_WORDS` characters. A longer text is cut in the middle."""
    words = " ".join(words.split())
    half = MAX_WORDS // 2 - 2
    return words if len(words) <= MAX_WORDS else f"{words[:half]} … {words[-half:]}"


def _refuse(uri: str) -> Any:
    raise ValueError("other documents are not read")


def serve() -> None:
    """Make checks until standard input ends, or stays silent for `CHECKER_IDLE_SECONDS`."""
    import resource  # needed by this process only, and not there on every system

    resource.setrlimit(resource.RLIMIT_AS, (CHECKER_MEMORY, CHECKER_MEMORY))
    compiled: OrderedDict[bytes, Any] = OrderedDict()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while select.select([source], [], [], CHECKER_IDLE_SECONDS)[0] and len(head := source.read(HEAD.size)) == HEAD.size:
        # A limit for this check, in case the parent, which kills this process at the timeout, is gone.
        spent = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(spent.ru_utime + spent.ru_stime + CHECK_SECONDS + 1)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        sizes = HEAD.unpack(head)
        for said in _looked(compiled, source.read(sizes[0]), source.read(sizes[1])):
            sink.write(said)
            sink.flush()


def _looked(compiled: OrderedDict[bytes, Any], schema: bytes, body: bytes) -> Iterator[bytes]:
    try:
        if schema not in compiled:
            compiled[schema] = validator(json.loads(schema))
            while len(compiled) > MAX_COMPILED:
                compiled.popitem(last=False)
        checks, value = compiled[schema], json.loads(body)
    except (ValueError, RecursionError, MemoryError) as error:
        words = str(error).partition("\n")[0] or type(error).__name__
        yield UNCHECKED + short(words).encode() + b"\n"
        return
    if checks.is_valid(value):
        yield FITS
        return
    found = None
    if b'"pattern' in schema:  # a pattern that reached its limit is reported as one that does not match
        found = next(checks.iter_errors(value))
        if _exhausted(found):
            yield UNCHECKED + f"a pattern takes more than {BACKTRACK_LIMIT:,} steps\n".encode()
            return
    # Sent before the message is made, which for recursive alternatives costs far more than the check.
    yield MISFIT
    found = found or next(checks.iter_errors(value))
    where = "/".join(str(part) for part in found.instance_path)
    yield short(f"{found.message} at {where}" if where else found.message).encode() + b"\n"


def _exhausted(error: Any) -> bool:
    if type(error.kind).__name__ in ("BacktrackLimitExceeded", "RegexEngineFailure"):
        return True
    return any(_exhausted(inner) for branch in getattr(error.kind, "context", ()) for inner in branch)


if __name__ == "__main__":
    serve()
