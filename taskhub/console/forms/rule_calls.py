"""The form for a call on which rules are tried."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django import forms

from taskhub.console.forms.base import ConsoleForm, Typed, picked
from taskhub.console.forms.rules import MOST_TOOLS
from taskhub.core.errors import Invalid
from taskhub.core.records import ToolRecord
from taskhub.domain.clients.verdicts import CallerRow
from taskhub.lib import jsonx
from taskhub.lib.numbers import whole
from taskhub.lib.signs import spelled

MAX_TYPED: Final = 20_000
"""The most characters of the typed-in arguments."""
MAX_PROGRAM: Final = 200
"""The most characters of the name of the program."""


class Moment(forms.TextInput):
    """A date and a time."""

    input_type = "datetime-local"


class CallForm(ConsoleForm):
    """A client, a tool and arguments. Names of its fields begin with `call_`, because it is also used inside the form
    of a rule."""

    call_client = picked((), label="Client")
    call_tool = picked((), label="Tool")
    call_arguments = Typed(
        label="Arguments",
        longest=MAX_TYPED,
        look="mono",
        widget=forms.Textarea,
        attrs={"rows": 5, "spellcheck": "false", "placeholder": "{}"},
        help_text="A JSON object.",
    )
    call_filled = Typed(longest=MAX_TYPED, widget=forms.HiddenInput)
    call_program = Typed(label="Program", longest=MAX_PROGRAM, help_text="What the client’s program calls itself.")
    call_at = Typed(label="Time (UTC)", longest=30, widget=Moment, help_text="Empty: now.")

    def offer(self, clients: Sequence[CallerRow], tools: Sequence[ToolRecord]) -> None:
        """Offer these clients and tools."""
        named = Counter(row.name for row in clients)
        choices: list[Any] = [("", "Choose a client")]
        for row in clients:
            name = row.name if named[row.name] == 1 else f"{row.name} ({row.issuer} {row.subject})"
            choices.append((str(row.id), spelled(name)))
        self.fields["call_client"].widget.choices = choices
        by_server: dict[str, list[tuple[str, str]]] = {}
        for tool in tools[:MOST_TOOLS]:
            by_server.setdefault(tool.server_name, []).append((str(tool.id), spelled(tool.exposed_name)))
        choices = [("", "Choose a tool")]
        choices += [(server, sorted(by_server[server], key=lambda pair: pair[1])) for server in sorted(by_server)]
        self.fields["call_tool"].widget.choices = choices

    def client_id(self) -> int:
        """The chosen client. Raises `Invalid`."""
        return self._chosen("call_client", "Choose a client.")

    def tool_id(self) -> int:
        """The chosen tool. Raises `Invalid`."""
        return self._chosen("call_tool", "Choose a tool.")

    def _chosen(self, name: str, refusal: str) -> int:
        found = whole(str(self[name].value() or ""))
        if not found:
            raise Invalid(refusal, field=name)
        return found

    def arguments(self) -> dict[str, Any]:
        """The typed-in arguments. Raises `Invalid`."""
        text = self.cleaned_data["call_arguments"]
        if len(text) > MAX_TYPED:
            raise Invalid(f"At most {MAX_TYPED:,} characters.", field="call_arguments")
        try:
            found = jsonx.decode(text.encode("utf-8", "surrogatepass")) if text else {}
        except jsonx.JsonError as error:
            raise Invalid(f"This is no JSON that calls may have: {error}.", field="call_arguments") from None
        if not isinstance(found, dict):
            raise Invalid('Give a JSON object, such as {"service": "web"}.', field="call_arguments")
        return found

    def program(self) -> str:
        """The typed-in name of the program. Raises `Invalid`."""
        text: str = self.cleaned_data["call_program"]
        if len(text) > MAX_PROGRAM:
            raise Invalid(f"At most {MAX_PROGRAM} characters.", field="call_program")
        return text

    def at(self) -> datetime | None:
        """The typed-in time; `None` for now. Raises `Invalid`."""
        text = self.cleaned_data["call_at"]
        try:
            found = datetime.fromisoformat(text) if text else None
        except ValueError:
            raise Invalid("Give a date and a time, such as 2026-07-31T18:00.", field="call_at") from None
        return found and (found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC))

    @property
    def is_typed(self) -> bool:
        """Whether somebody has typed the arguments: there are some, and they are not those that `show` put there."""
        given, filled = (str(self[name].value() or "").split() for name in ("call_arguments", "call_filled"))
        return given not in ([], filled)

    def show(self, arguments: dict[str, Any], program: str) -> None:
        """Put these arguments into the form, and the program if there is one."""
        posted: Any = self.data
        self.data = posted = posted.copy()
        shown = json.dumps(jsonx.repaired(arguments), indent=2, ensure_ascii=False)
        if len(shown) > MAX_TYPED:  # with its line breaks, it would be refused
            shown = jsonx.encode(jsonx.repaired(arguments)).decode()
        posted["call_arguments"] = posted["call_filled"] = shown
        if program:
            posted["call_program"] = program
