"""Prepares MCP content for a page. Tool output is never trusted: it is shown without markup, images only of known types
and only inline, links only to http and https addresses."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from taskhub.lib import jsonx, signs
from taskhub.lib.addresses import BadAddress, WebAddress
from taskhub.lib.addresses import web_address as read_address
from taskhub.lib.signs import visible_json

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that are shown. Not SVG, which may contain scripts and references."""

MAX_IMAGE: Final = 2_000_000
MAX_TEXT: Final = 200_000
FOLD_CHARACTERS: Final = 20_000
"""How many characters a task's page shows of a result, of its raw JSON, and of the arguments. Downloads are
complete."""
FOLD_LINES: Final = 200
"""How many lines a task's page shows of a result, of its raw JSON, and of the arguments."""
TOLD_FROM: Final = 200
"""An argument with more characters than this has its length beside it."""
FOLD_BLOCKS: Final = 100
"""How many content blocks of a result a task's page shows."""
FOLD_ROWS: Final = 50
"""How many arguments a page shows."""
FOLD_SAID: Final = 15
"""How many messages of a sampling request a page shows."""
_FOLD_MARKS: Final = 500
"""How many marks a page has room for, besides the limits for characters and lines. A mark stands for invisible
characters, and is far longer than they are."""
_NARROW: Final = 40
"""About how many characters fit on a line on a phone."""
_FRAME: Final = 13
"""How many lines the frame shows in which a long text scrolls."""


_LIKE_ANOTHER: Final = re.compile(r"\s*(?:[\[{]|(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*\Z)")


@dataclass(frozen=True, slots=True)
class Link:
    """A URL as a page offers it: the parsed `address` to open, or the `problem` with the URL, worded as the end of a
    sentence."""

    url: str
    address: WebAddress | None
    problem: str = ""

    @property
    def href(self) -> str:
        """The URL to open, built from the parsed parts; empty if it must not be opened."""
        return self.address.href if self.address else ""


@dataclass(frozen=True, slots=True)
class Block:
    """One content block to draw. `kind` is text, json, image, link or other; `link` is set for kind link."""

    kind: str
    text: str = ""
    source: str = ""
    link: Link | None = None
    label: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ResultView:
    """A result to draw: its content blocks, its structured content as JSON text, and the whole result as JSON text."""

    blocks: tuple[Block, ...]
    structured: str | None
    raw: str
    cut: bool
    """Whether the blocks, the structured content or the raw JSON were cut."""


class Row(NamedTuple):
    """One line of a table that shows a value: a member of an object, or (with `name` = `None`) a whole value that is no
    object. `text` is the value as text."""

    name: str | None
    text: str
    short: bool
    """Whether the text is one line."""
    like_another: bool = False
    """Whether the text of a string looks like another JSON value, such as a number."""
    unknown: bool = False
    """Whether the schema does not list the name."""
    default: str = ""
    """`same` if the value is the schema's default; `left` if no value was given, and `text` is the default; otherwise
    empty."""
    unshown: str = ""
    """How much of the value is not part of `text`, in words; empty if nothing is missing."""

    @property
    def extent(self) -> str:
        """How long the text is, in words; empty if the text is short, or if `unshown` says it."""
        if self.unshown or (self.short and len(self.text) <= TOLD_FROM):
            return ""
        return _extent(self.text)


class Rows(list[Row]):
    """The rows that a page shows. `left` is the number of further rows, which it does not show."""

    left: int = 0

    @property
    def cut(self) -> bool:
        """Whether rows, or parts of rows, are not shown."""
        return bool(self.left) or any(row.unshown for row in self)


class _Budget:
    """The characters, lines and image data that a page may still show. `take` and `block` use them up."""

    def __init__(self) -> None:
        self._characters, self._lines, self._marks = FOLD_CHARACTERS, FOLD_LINES, _FOLD_MARKS
        self.cut = False
        self.images = MAX_IMAGE

    @property
    def left(self) -> bool:
        """Whether the page has room for more text."""
        return self._lines > 0 and self._characters > 0

    def take(self, text: str) -> str:
        """The beginning of `text` that the page still has room for."""
        if not text:
            return ""
        if not self.left:
            self.cut = True
            return ""
        kept = self._few_marks(text[: self._characters])
        lines = kept.split("\n")
        kept = "\n".join(lines[: self._lines])
        self.cut = self.cut or len(kept) < len(text)
        self._characters -= len(kept)
        self._lines -= min(len(lines), self._lines)
        return kept

    def _few_marks(self, text: str) -> str:
        """The beginning of the text, cut before the first mark for which there is no room."""
        shown = 0
        for piece, times in signs.pieces(text, lines=True):
            if times and self._marks == 0:
                return text[:shown]
            self._marks -= bool(times)
            shown += len(piece) * max(times, 1)
        return text

    def block(self, shown: Block) -> Block | None:
        """The part of the block that the page still has room for; `None` if there is no room."""
        if shown.kind == "image":
            self.images -= len(shown.source)
            if self.images < 0:
                self.cut = True
                return None
        label, text = self.take(shown.label), self.take(shown.text)
        source = shown.source if shown.kind == "image" else self.take(shown.source)
        if (shown.label or shown.text or shown.source) and not (label or text or source):
            return None
        whole = (label, text, source) == (shown.label, shown.text, shown.source)
        return shown if whole else replace(shown, label=label, text=text, source=source, cut=False)


def outcome(result_json: str | None) -> ResultView | None:
    """A stored result, prepared for a page; `None` if there is no result."""
    if result_json is None:
        return None
    result = json.loads(result_json)
    content = result.get("content")
    blocks = tuple(block(item) for item in content) if isinstance(content, list) else ()
    structured, budget = result.get("structuredContent"), _Budget()
    # Servers repeat the structured content as a text block for older clients: shown once.
    if structured is not None:
        blocks = tuple(b for b in blocks if not (b.kind == "json" and _same(b.text, structured)))
    budget.cut = len(blocks) > FOLD_BLOCKS
    shown = tuple(one for each in blocks[:FOLD_BLOCKS] if (one := budget.block(each)) is not None)
    text = None if structured is None else budget.take(visible_json(structured))
    raw, kept = folded(visible_json(result))
    return ResultView(blocks=shown, structured=text, raw=raw, cut=budget.cut or kept)


def folded(text: str) -> tuple[str, bool]:
    """The part of the text that a task's page shows, and whether some of it was left out."""
    budget = _Budget()
    return budget.take(text), budget.cut


def folded_rows(found: list[Row]) -> Rows:
    """The rows for which a page has room, also on a phone. `left` says how many rows there is no room for, and
    `unshown` how much of a row's text."""
    budget, shown, height = _Budget(), Rows(), 0
    for row in found[:FOLD_ROWS]:
        if not budget.left or height > FOLD_LINES:
            break
        name = None if row.name is None else budget.take(row.name)
        text = budget.take(row.text)
        left = _extent(row.text[len(text) :], " more") if len(text) < len(row.text) else ""
        short = row.short and len(text) <= TOLD_FROM
        shown.append(row._replace(name=name, text=text, short=short, unshown=left))
        lines = sum(1 + len(line) // _NARROW for line in text.split("\n"))
        height += 2 + (lines if short else min(lines, _FRAME))
    shown.left = len(found) - len(shown)
    return shown


def said(messages: Any) -> tuple[list[dict[str, Any]], int]:
    """The messages of a sampling request for which a page has room, each with its `role` and `blocks`; and how many
    messages are left out or cut."""
    budget, shown = _Budget(), []
    found = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    cut = 0
    for message in found[:FOLD_SAID]:
        body = message.get("content")
        blocks = [block(item) for item in (body if isinstance(body, list) else [body])]
        budget.cut = len(blocks) > FOLD_SAID
        kept = [one for each in blocks[:FOLD_SAID] if (one := budget.block(each)) is not None]
        cut += budget.cut
        shown.append({"role": str(message.get("role", ""))[:100], "blocks": kept})
    return shown, cut + len(found) - len(shown)


def _extent(text: str, more: str = "") -> str:
    """How long the text is, in words. `more` stands after each number."""
    lines, told = text.count("\n") + 1, f"{len(text):,}{more} characters"
    return told if lines == 1 else f"{lines:,}{more} lines, {told}"


def block(item: Any) -> Block:
    """The block to draw for one item of `content`, of any type and even if malformed."""
    if not isinstance(item, dict):
        return Block("other", text=visible_json(item, indent=None))
    kind = item.get("type")
    if kind == "text":
        return _text(str(item.get("text", "")))
    if kind == "image":
        return _image(item)
    if kind == "resource_link":
        uri = str(item.get("uri", ""))
        label = str(item.get("title") or item.get("name") or uri)
        return Block("link", text=str(item.get("description") or ""), source=uri, link=link(uri), label=label)
    if kind == "resource" and isinstance(item.get("resource"), dict):
        resource = item["resource"]
        uri = str(resource.get("uri", ""))
        if isinstance(resource.get("text"), str):
            shown = _text(resource["text"])
            return Block(shown.kind, text=shown.text, label=uri, cut=shown.cut)
        return Block("link", source=uri, link=link(uri), label=uri, text=str(resource.get("mimeType") or ""))
    return Block("other", text=visible_json(item)[:MAX_TEXT])


def rows(value: Any, schema: Any = None) -> list[Row]:
    """The members of an object as rows; any other value is one row without a name. With the JSON schema of the object,
    each row says whether the schema lists the name and whether the value is the default, and rows follow for the
    defaults of members that were not given."""
    if not isinstance(value, dict):
        return [Row(None, visible_json(value), short=False)]
    known = schema.get("properties") if isinstance(schema, dict) else None
    known = known if isinstance(known, dict) else {}
    patterns = isinstance(schema, dict) and bool(schema.get("patternProperties"))
    defaults = {name: one["default"] for name, one in known.items() if isinstance(one, dict) and "default" in one}
    found = []
    for name, item in value.items():
        same = name in defaults and visible_json(defaults[name]) == visible_json(item)
        unknown = isinstance(schema, dict) and not patterns and name not in known
        found.append(_row(name, item)._replace(unknown=unknown, default="same" if same else ""))
    left = [_row(name, item)._replace(default="left") for name, item in defaults.items() if name not in value]
    return found + left


def _row(name: str, item: Any) -> Row:
    if isinstance(item, str):
        return Row(name, item, "\n" not in item, bool(_LIKE_ANOTHER.match(item)))
    if isinstance(item, (dict, list)) and item:
        return Row(name, visible_json(item), short=False)
    return Row(name, visible_json(item, indent=None), short=True)


def link(uri: str) -> Link:
    """The link for `uri`: to be opened if it is a plain http or https address."""
    try:
        return Link(uri, read_address(uri))
    except BadAddress as error:
        return Link(uri, None, str(error))


def _text(text: str) -> Block:
    cut = len(text) > MAX_TEXT
    text = text[:MAX_TEXT]
    if text[:1] in "{[" and not cut:
        try:
            return Block("json", text=visible_json(jsonx.repaired(json.loads(text))))
        except (ValueError, RecursionError):
            pass
    return Block("text", text=text, cut=cut)


def _image(item: dict[str, Any]) -> Block:
    data, mime = item.get("data"), item.get("mimeType")
    if isinstance(data, str) and mime in IMAGES and len(data) <= MAX_IMAGE:
        try:
            base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return Block("other", text="An image that cannot be decoded")
        return Block("image", source=f"data:{mime};base64,{data}", label=f"Image from the tool, {mime}")
    return Block("other", text=f"An image of type {mime or 'unknown'} that is not shown here")


def _same(text: str, value: Any) -> bool:
    return bool(json.loads(text) == value)


def sampling(params: dict[str, Any]) -> dict[str, Any]:
    """The system prompt and the messages (`said`) of a sampling request with these params, and how many of the messages
    are left out or cut (`left`)."""
    told, left = said(params.get("messages"))
    return {"system": str(params.get("systemPrompt") or ""), "said": told, "left": left}
