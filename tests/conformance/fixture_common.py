"""What the conformance fixtures share: task hints, tiny media, and ways to ask and to read answers."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Final

from mcp.server.mcpserver import Context
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

Ctx = Context[Any, Any]

# How the hub should run a tool; a tool without a hint is "auto".
NEVER: Final = {"taskhub/task": "never"}
REQUIRED: Final = {"taskhub/task": "required"}


def _png() -> bytes:
    """A valid 1x1 red PNG."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """A valid WAV of four silent samples."""
    samples = struct.pack("<4h", 0, 0, 0, 0)
    header = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    body = b"WAVE" + header + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


PNG: Final = _png()
PNG_BASE64: Final = base64.b64encode(PNG).decode()
WAV_BASE64: Final = base64.b64encode(_wav()).decode()


def form(message: str, properties: dict[str, Any], required: list[str] | None = None) -> ElicitRequest:
    """A form question; every property is required unless `required` says otherwise."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def name_form() -> ElicitRequest:
    return form("What is your name?", {"name": {"type": "string"}})


def sample(prompt: str, max_tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def ask(state: str | None = None, /, **questions: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=questions, request_state=state)


def elicited(ctx: Ctx, key: str) -> ElicitResult | None:
    """The elicitation answer under `key`; an answer of another kind counts as none."""
    answer = (ctx.input_responses or {}).get(key)
    return answer if isinstance(answer, ElicitResult) else None


def field(ctx: Ctx, key: str, name: str, kind: type[str | bool]) -> str | bool | None:
    """One accepted form field, or None when it is missing, of the wrong type or not accepted."""
    answer = elicited(ctx, key)
    if answer is None or answer.action != "accept":
        return None
    value = (answer.content or {}).get(name)
    return value if isinstance(value, kind) else None


def sampled(ctx: Ctx, key: str) -> str | None:
    """The text of the sampling answer under `key`."""
    answer = (ctx.input_responses or {}).get(key)
    if not isinstance(answer, CreateMessageResult | CreateMessageResultWithTools):
        return None
    blocks = answer.content if isinstance(answer.content, list) else [answer.content]
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


def roots(ctx: Ctx, key: str) -> list[str] | None:
    answer = (ctx.input_responses or {}).get(key)
    return [str(root.uri) for root in answer.roots] if isinstance(answer, ListRootsResult) else None
