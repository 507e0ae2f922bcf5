"""References to secrets: `${env:NAME}`, a variable of the environment, and `${file:PATH}`, the text of a file.

A file of configuration has no secret in it, and no message repeats one. If TaskHub would hide a value, the file has to
have a reference for it; and a reference may stand only where TaskHub hides the value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from typing import Final

from taskhub.core.errors import Invalid
from taskhub.core.secrets import HIDDEN, masked, redacted, secrets_of
from taskhub.domain.catalogue.reads import spec_of
from taskhub.domain.catalogue.spec import parse_spec
from taskhub.domain.configuration.records import Given, Spec

_REFERENCE: Final = re.compile(r"(\$?)\$\{(env|file):([^{}]*)\}")
"""Matches a reference. A reference with another `$` in front of it is plain text."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PATH: Final = re.compile(r"/\S+")
_STDIO: Final = "stdio:"


class Missing(Exception):
    """A reference leads nowhere. The message says why, in a sentence."""


Lookup = Callable[[str, str], str]
"""A function that returns the value of a reference from its kind (`env` or `file`) and its name or path. It raises
`Missing` if there is none."""


def secret_given(text: str, lookup: Lookup) -> Given:
    """A text that is a secret as a whole, such as a token. Raises `Invalid` if it has no reference."""
    if not _references(text):
        raise Invalid(f"A secret stands in no file: {_HOW}.")
    return _given(text, lookup)


def value_given(name: str, text: str, lookup: Lookup) -> Given:
    """The value of a header or a variable. Raises `Invalid` if the value may be a secret, by its name or its form, and
    has no reference."""
    if not _references(text) and masked(name, text) != text:
        raise Invalid(f"The value of {name[:100]} may be a secret, which stands in no file: {_HOW}.")
    return _given(text, lookup)


def spec_given(text: str, lookup: Lookup) -> Spec:
    """A server's address or command. Raises `Invalid`, whose message never contains a value."""
    references = _references(text)
    stand_ins = {reference: _stand_in(place, text) for place, reference in enumerate(references)}
    try:
        parsed = parse_spec(_filled(text, stand_ins))
    except Invalid as error:
        raise Invalid(_with_references(error.message, stand_ins)) from None
    if parsed.named:
        raise Invalid("The name is given as `name`, not with the address or command.")
    shown = redacted(parsed.transport, parsed.target)
    for reference, stand_in in stand_ins.items():
        if stand_in in shown:
            raise Invalid(
                f"{reference} would stand where the address or command is shown. Write it out if it is no secret; else"
                " give it as a header or a variable."
            )
    hidden = secrets_of(parsed.transport, parsed.target)
    behind = [secret for secret in hidden if any(stand_in in secret for stand_in in stand_ins.values())]
    if any(not any(secret in other for other in behind) for secret in hidden):
        raise Invalid(f"A part of it may be a secret ({shown}), which stands in no file: {_HOW}.")
    written = spec_of(parsed.transport, shown)
    try:
        values = _looked_up(references, lookup)
    except Missing as error:
        return Spec(text, None, str(error), written)
    try:
        found = parse_spec(_filled(text, values))
    except Invalid:
        found = None
    if found is None or (found.transport, redacted(found.transport, found.target)) != (parsed.transport, shown):
        raise Invalid(
            f"With {', '.join(references)} filled in, this is another address or command: in an address, characters"
            " with a meaning are written as %20."
        )
    return Spec(text, spec_of(found.transport, found.target), "", written)


def same_spec(present: Spec, wanted: Spec) -> bool:
    """Whether both are the same address, or commands with the same words. If the secrets in `wanted` are not known, the
    two are compared as people are shown them. If only the secrets in `present` are not known, the two count as
    different."""
    if wanted.value is None:
        return present.shown == wanted.shown
    if present.value is None or present.value == wanted.value:
        return present.value is not None
    if not (present.value.startswith(_STDIO) and wanted.value.startswith(_STDIO)):
        return False
    return shlex.split(present.value) == shlex.split(wanted.value)


class References:
    """Makes up references for the secrets of a hub, for an export. The same hub always gets the same references."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def secret(self, *words: str) -> str:
        """A reference to a variable that is named after these words."""
        name = wanted = "_".join(["SECRET", *(re.sub(r"[^A-Z0-9]+", "_", word.upper()).strip("_") for word in words)])
        number = 1
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.append(name)
        return f"${{env:{name}}}"

    def spec(self, server: str, transport: str, shown: str) -> str:
        """The spec of a server whose address or command people are `shown`, with references in place of the hidden
        secrets."""
        word = "address" if transport == "http" else "command"
        first, *rest = (_REFERENCE.sub(lambda found: "$" + found[0], part) for part in shown.split(HIDDEN))
        return spec_of(transport, first + "".join(self.secret(server, word) + part for part in rest))


_HOW: Final = "write ${env:NAME} or ${file:/path}"


def _given(text: str, lookup: Lookup) -> Given:
    try:
        value = _filled(text, _looked_up(_references(text), lookup))
    except Missing as error:
        return Given(text, None, str(error))
    return Given(text, value)


def _references(text: str) -> list[str]:
    """The references in a text, each once. Raises `Invalid` for a reference that can be no variable or file."""
    found = [match for match in _REFERENCE.finditer(text) if not match[1]]
    for _, kind, name in (match.groups() for match in found):
        if kind == "env" and not _VARIABLE.fullmatch(name):
            raise Invalid(f"{name[:100]!r} is no name of a variable.")
        if kind == "file" and not _PATH.fullmatch(name):
            raise Invalid("A file is named by its full path without blanks, such as ${file:/run/secrets/token}.")
    return list(dict.fromkeys(match[0] for match in found))


def _looked_up(references: Iterable[str], lookup: Lookup) -> dict[str, str]:
    values = {}
    for reference in references:
        match = _REFERENCE.fullmatch(reference)
        assert match is not None
        values[reference] = value = lookup(match[2], match[3])
        if not value:
            raise Invalid(f"{reference} is empty.")
    return values


def _filled(text: str, values: dict[str, str]) -> str:
    """The text with values for its references. A command is filled in word by word, so that a value is never two
    words."""

    def fill(part: str) -> str:
        return _REFERENCE.sub(lambda found: found[0][1:] if found[1] else values[found[0]], part)

    if not values or not text.startswith(_STDIO):
        return fill(text)
    try:
        words = shlex.split(text.removeprefix(_STDIO))
    except ValueError:
        return text  # which the parser of specs refuses, with the reason
    return _STDIO + shlex.join(map(fill, words))


def _stand_in(place: int, text: str) -> str:
    made = f"zq{place}zq"
    while made in text:
        made += "zq"
    return made


def _with_references(message: str, stand_ins: dict[str, str]) -> str:
    for reference, stand_in in stand_ins.items():
        message = message.replace(stand_in, reference)
    return message
