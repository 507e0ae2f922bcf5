"""Compares what a server says through the hub with what it says directly, field by field. All that may differ is named
here, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAY_DIFFER: Final = {
    "result": {
        "resultType": "2026-07-28 has it and older versions do not",
        "_meta/io.modelcontextprotocol/serverInfo": "whoever answers names itself: the hub, or the server",
        "_meta/io.modelcontextprotocol/related-task": "a result of a task names it: the hub's, or the server's",
    },
    "tool": {
        "name": "the hub puts the prefix that the server was given before it",
        "execution": "whether a tool runs as a task is the hub's own to offer",
    },
    "question": {
        "_meta": "it names the task and the progress that it belongs to",
        "task": "a server of 2025-11-25 may want an answer as a task of the client, the hub wants it as it comes",
    },
    "prompt": {"name": "as of a tool"},
    "offer": {},
    "error": {},
}
"""By what is compared: the members that may differ, and why."""

PLAIN: Final = ("properties/taskhub", "required", "additionalProperties")
"""What may differ in an `outputSchema` that is shown to clients without tasks: a call that takes longer than its client
is patient is answered with where it stands, in a member `taskhub` and without those that the result will have."""

ABSENT: Final = {
    ("result", "isError"): (False, "absent means false"),
    ("question", "mode"): ("form", "absent means form, before 2025-11-25"),
}
"""Members that mean the same when they are absent."""


def settled(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A value without what may differ."""
    found = dict(value)
    for path in MAY_DIFFER[kind.removeprefix("plain ")]:
        member, _, below = path.partition("/")
        if not below:
            found.pop(member, None)
        elif isinstance(found.get(member), dict):
            found[member] = {key: inner for key, inner in found[member].items() if key != below}
            if not found[member]:
                del found[member]
    if kind == "plain tool" and isinstance(schema := found.get("outputSchema"), dict):
        properties = {name: inner for name, inner in schema.get("properties", {}).items() if name != "taskhub"}
        found["outputSchema"] = {key: inner for key, inner in schema.items() if key not in PLAIN}
        found["outputSchema"]["properties"] = properties
    for (of, member), (meant, _) in ABSENT.items():
        if of == kind and found.get(member) == meant:
            del found[member]
    return found


def masked(value: Any, masks: Mapping[str, str]) -> Any:
    """A value in whose strings what the patterns match is replaced."""
    if isinstance(value, str):
        for pattern, instead in masks.items():
            value = re.sub(pattern, instead, value)
        return value
    if isinstance(value, dict):
        return {key: masked(inner, masks) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, masks) for inner in value]
    return value


def differences(direct: Any, hub: Any, at: str = "") -> Iterator[str]:
    """Each place where two values differ, and how."""
    if isinstance(direct, dict) and isinstance(hub, dict):
        for key in sorted({*direct, *hub}):
            where = f"{at}/{key}"
            if key not in hub:
                yield f"{where}: only directly: {_shown(direct[key])}"
            elif key not in direct:
                yield f"{where}: only through the hub: {_shown(hub[key])}"
            else:
                yield from differences(direct[key], hub[key], where)
    elif isinstance(direct, list) and isinstance(hub, list) and len(direct) == len(hub):
        for place, (one, other) in enumerate(zip(direct, hub, strict=True)):
            yield from differences(one, other, f"{at}/{place}")
    elif direct != hub or type(direct) is not type(hub):
        yield f"{at or '/'}: directly {_shown(direct)}, through the hub {_shown(hub)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:200]}… ({len(text)} characters)"
