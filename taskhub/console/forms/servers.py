"""Forms about servers, and the policies of their tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from taskhub.console.forms.base import ConsoleForm, Typed, Whole, picked
from taskhub.core.policy import (
    CALLER,
    MAX_ATTEMPTS,
    MAX_JOIN_SECONDS,
    MAX_RETRY_SECONDS,
    MAX_RUN_SECONDS,
    Policy,
)
from taskhub.core.transports import CONNECT_SECONDS, MOST_AT_ONCE, MOST_CONNECT_SECONDS
from taskhub.core.versions import OF_CALLER, Version
from taskhub.domain.catalogue.edits import MAX_REASON, ServerEdit
from taskhub.domain.catalogue.given import MAX_DIRECTORY, MAX_PAIRS
from taskhub.domain.catalogue.reads import ServerRow, ToolRow
from taskhub.lib import jsonx

SPARE_PAIRS: Final = 2
MODES: Final = (
    ("auto", "Auto: a short wait, then a task handle"),
    ("always", "Always: a task handle at once; clients without task support wait"),
    ("never", "Never: the caller waits for the result"),
    ("required", "Required: a task handle or nothing; hidden from clients without task support"),
)
AUDIENCES: Final = (
    ("client", "The calling client"),
    ("operator", "People in this console"),
    ("either", "The client or people, whoever answers first"),
    (CALLER, "The calling client’s program; what it cannot answer is refused"),
)
SECRET: Final = {"spellcheck": "false"}


class Pairs(forms.Widget):
    """A widget for names with secret values: the stored ones, whose values are not shown, then `SPARE_PAIRS` empty
    ones. Values are never sent back to the browser, so if the form is refused they have to be typed again."""

    use_fieldset = True

    def __init__(self, one: str) -> None:
        super().__init__()
        self.one = one
        self.stored: tuple[str, ...] = ()

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Render two inputs for each pair."""
        pairs = [
            (given, bool(typed), "type it again" if typed else "as it is stored" if given in self.stored else "value")
            for given, typed in value or ()
        ]
        context = {"name": name, "one": self.one, "pairs": pairs, "blank": range(SPARE_PAIRS)}
        return render_to_string("parts/pairs.html", context)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[tuple[str, str]]:
        """The posted pairs of which at least one input was filled in."""
        if not hasattr(data, "getlist"):
            return []
        pairs = zip(data.getlist(f"{name}_name"), data.getlist(f"{name}_value"), strict=False)
        return [(given.strip()[:200], value) for given, value in pairs if given.strip() or value][: MAX_PAIRS + 10]


class Secrets(forms.Field):
    """Names with secret values. The cleaned data has the values by name, with `None` to keep the stored value."""

    def __init__(self, one: str, **options: Any) -> None:
        super().__init__(required=False, widget=Pairs(one), **options)
        self.one = one

    def clean(self, value: Any) -> dict[str, str | None]:
        """The typed values by name; `None` for an empty input, which keeps the stored value. Raises `ValidationError`
        for a value without a name, or a name that is given twice."""
        found: dict[str, str | None] = {}
        for name, text in value or ():
            if not name:
                raise forms.ValidationError(f"Name the {self.one} that has this value.")
            if name in found:
                raise forms.ValidationError(f"{name} is given twice.")
            found[name] = text or None
        return found


class ServerFields(ConsoleForm):
    """How a server is reached and used: the fields that adding and editing a server share."""

    spec = Typed(
        label="Address or command",
        longest=2_000,
        demanded=True,
        look="mono",
        attrs={"spellcheck": "false"},
        help_text=mark_safe(
            "A URL such as <code>https://example.com/mcp</code> (for HTTP with SSE, <code>sse+https://…</code>), a "
            "command such as <code>stdio:npx -y @acme/server@1.2.3</code>, or a Python object such as "
            "<code>python:package.module:server</code>. Commands and Python objects run on the workers' machines, "
            "with the workers' rights."
        ),
    )
    own_process = forms.BooleanField(
        required=False,
        label="A process of its own, for a Python object",
        help_text="Its crash ends no worker. It takes longer for a call, and does not see the workers’ variables.",
    )
    prefix = Typed(  # type: ignore[assignment]  # not an override: Django removes fields from the class
        label=mark_safe('Prefix <span class="soft">(optional)</span>'),
        longest=63,
        look="mono",
        help_text=mark_safe(
            "Put before the name of each of its tools as is: <code>gh_</code> turns <code>search</code> into "
            "<code>gh_search</code>. Names that clients know already stay."
        ),
    )
    headers = Secrets(
        "header",
        label="Headers, for a server with a URL",
        help_text="Sent with every request. The values are stored encrypted and never shown again.",
    )
    environment = Secrets(
        "variable",
        label="Variables, for a command or a process of its own",
        help_text="Its environment. The values are stored encrypted and never shown again.",
    )
    directory = Typed(
        label="Working directory, for a command or a process of its own",
        longest=MAX_DIRECTORY,
        look="mono",
        attrs={"spellcheck": "false"},
        help_text="A full path on the workers’ machines. Empty: the workers’ own.",
    )
    connect_seconds = Whole(
        label="Time to connect (seconds)",
        low=1,
        high=MOST_CONNECT_SECONDS,
        optional=True,
        help_text=f"Empty: {CONNECT_SECONDS}. How long a call may take is set for each tool.",
    )
    calls_at_once = Whole(
        label="Concurrent calls per worker",
        low=1,
        high=MOST_AT_ONCE,
        optional=True,
        help_text="Empty: the default for this kind of server.",
    )
    review = forms.BooleanField(
        required=False,
        label="New and changed tools wait for a person",
        help_text="They are neither listed nor called until an admin confirms them on the server’s page.",
    )
    pinned = picked(
        (
            ("", "The newest that the server speaks"),
            (OF_CALLER, "As each caller speaks, if the server speaks both eras"),
            *((version, version) for version in reversed(Version)),
        ),
        label="Version of the protocol",
        help_text="An older one, where the server answers wrongly in a newer one. As the caller, for tools that ask "
        "in the middle of a call and need a session for it.",
    )
    further: ClassVar[tuple[str, ...]] = (
        *("own_process", "headers", "environment", "directory"),
        *("connect_seconds", "calls_at_once", "review", "pinned"),
    )
    """The fields that are folded away unless one of them has a value or an error."""

    def usual_fields(self) -> list[forms.BoundField]:
        """The fields that are always shown."""
        return [self[name] for name in self.fields if name not in self.further]

    def further_fields(self) -> list[forms.BoundField]:
        """The other fields."""
        return [self[name] for name in self.further]

    @property
    def unfolded(self) -> bool:
        """Whether the further fields are shown from the start, because one of them has a value or an error."""
        return any(name in self.errors or self[name].value() for name in self.further)


class ServerForm(ServerFields):
    """Adds a server."""

    first = "name"
    field_order = ("name", "spec", "token", "prefix")
    name = Typed(
        label="Name",
        longest=64,
        demanded=True,
        help_text="Letters, digits, dots, dashes and underscores. It is put before a tool's name where two servers "
        "have the same tool.",
    )
    token = Typed(
        label=mark_safe('Token <span class="soft">(optional)</span>'),
        longest=4_096,
        look="mono",
        widget=forms.PasswordInput,
        attrs=SECRET,
        help_text=mark_safe(
            "For a server with a URL: sent as <code>Authorization: Bearer</code>. It is stored encrypted and never "
            "shown again."
        ),
    )


class ServerEditForm(ServerFields):
    """Changes a server. Secrets that are not typed again stay as they are."""

    first = "spec"
    shared = forms.BooleanField(
        required=False,
        label="Clients share its processes and sessions",
        help_text="For a server that keeps nothing between calls. Otherwise each client has its own process of a "
        "command, and its own session at an HTTP server that has sessions.",
    )

    def __init__(self, server: ServerRow, data: Any = None) -> None:
        initial = {
            "spec": server.spec,
            "prefix": server.prefix,
            "headers": [(name, "") for name in server.header_names],
            "environment": [(name, "") for name in server.variable_names],
            "directory": server.directory,
            "own_process": server.own_process,
            "connect_seconds": server.connect_seconds if server.connect_said else None,
            "calls_at_once": server.calls_at_once if server.calls_said else None,
            "shared": server.shared,
            "review": server.review,
            "pinned": server.pinned,
        }
        super().__init__(data, initial=initial)
        self.fields["headers"].widget.stored = server.header_names
        self.fields["environment"].widget.stored = server.variable_names
        self.fields["spec"].help_text = mark_safe(
            "Secrets are not shown: <code>•••</code> stands for one. To change anything here, give the whole of it "
            "again. A token and headers belong to their address, variables to their command: with another one they "
            "are dropped. Another version of the same package keeps them."
        )

    def edit(self) -> ServerEdit:
        """The posted values as an edit of the server."""
        typed = self.cleaned_data
        return ServerEdit(
            spec=typed["spec"],
            prefix=typed["prefix"],
            headers=typed["headers"],
            environment=typed["environment"],
            directory=typed["directory"],
            own_process=typed["own_process"],
            connect_seconds=typed["connect_seconds"] or 0,
            calls_at_once=typed["calls_at_once"] or 0,
            shared=typed["shared"],
            review=typed["review"],
            pinned=typed["pinned"],
        )


class ServerDisableForm(ConsoleForm):
    """Asks why a server is disabled."""

    reason = Typed(
        label=mark_safe('Reason <span class="soft">(optional)</span>'),
        longest=MAX_REASON,
        help_text="Shown with the server’s state.",
    )


class ServerTokenForm(ConsoleForm):
    """Replaces the token for a server, or removes it."""

    first = "token"
    token = Typed(
        label="Token",
        longest=4_096,
        look="mono",
        widget=forms.PasswordInput,
        attrs=SECRET,
        help_text=mark_safe(
            "Sent as <code>Authorization: Bearer</code>, stored encrypted and never shown again. Leave empty to "
            "send no token."
        ),
    )


class ServerCallsForm(ConsoleForm):
    """Sets how many concurrent calls a server gets from each worker."""

    first = "calls_at_once"
    calls_at_once = Whole(
        label="Concurrent calls per worker",
        low=1,
        high=MOST_AT_ONCE,
        optional=True,
        help_text="Further calls wait in the queue without taking a slot. Empty: the default for this kind of server.",
    )


class PolicyForm(ConsoleForm):
    """The policy of `tool`, filled with the saved policy or with the posted `data`."""

    seen = forms.CharField(required=False, max_length=100, widget=forms.HiddenInput)
    enabled = forms.BooleanField(required=False, label="Offered to clients")
    policy_mode = picked((), label="Task mode")
    question_audience = picked(
        (("", "Automatic: client if it can, or people"), *AUDIENCES),
        label="Who answers its questions",
        help_text="Where a client’s program can show no form, people answer. With “The calling client” its model does.",
    )
    people_after_program = forms.BooleanField(
        required=False,
        label="Ask people if the client’s program declines by itself",
        help_text="What is declined within a second of being asked was declined by no person.",
    )
    at_least_once = picked(
        (),
        label="Run again after a lost worker",
        help_text="If not, the outcome is unknown: a person says whether it ran.",
    )
    companion_tool = picked((), label="Ask first whether it ran")
    companion_arguments = Typed(
        label="Its arguments",
        longest=4_000,
        look="mono",
        widget=forms.Textarea,
        attrs={"rows": 3, "placeholder": "order = $order", "spellcheck": "false"},
        help_text=mark_safe(
            "One on each line: <code>order = $id</code> is the argument <code>id</code> of the call, "
            "<code>verbose = true</code> a JSON value, anything else text."
        ),
    )
    companion_field = Typed(
        label="Rules by itself, by this member of its answer",
        longest=128,
        look="mono",
        attrs={"placeholder": "people rule", "spellcheck": "false"},
    )
    companion_ran = Typed(label="It ran if that is", longest=500, look="mono", attrs={"spellcheck": "false"})
    companion_unrun = Typed(label="It did not run if that is", longest=500, look="mono", attrs={"spellcheck": "false"})
    retry_on = Typed(
        label="Try again after these errors",
        longest=300,
        look="mono",
        attrs={"placeholder": "none", "spellcheck": "false"},
        help_text=mark_safe(
            "Words and JSON-RPC codes, with commas: <code>connect</code> if the server cannot be reached, "
            "<code>timeout</code> after the run timeout, or codes such as <code>-32001</code>. A tool error (isError) "
            "is a result, and never tried again. After a timeout the tool may have done its work."
        ),
    )
    retry_seconds = Whole(
        label="Pause before the next try (seconds)",
        low=1,
        high=MAX_RETRY_SECONDS,
        help_text="Doubled each time, up to 5 minutes, and varied by half.",
    )
    max_attempts = Whole(
        label="Maximum attempts", low=1, high=MAX_ATTEMPTS, help_text="Lost runs and tries after errors together."
    )
    run_seconds = Whole(label="Run timeout (seconds)", low=1, high=MAX_RUN_SECONDS)
    join_seconds = Whole(
        label="Join equal calls for (seconds)",
        low=0,
        high=MAX_JOIN_SECONDS,
        help_text=(
            "A client that leaves and makes the same call again gets the task it left, while that runs and so long "
            "after its end. 0: every call runs."
        ),
    )

    def __init__(self, tool: ToolRow, data: Any = None) -> None:
        super().__init__(data, initial=_saved(tool))
        self.tool = tool
        again = "no"
        if tool.read_only or tool.idempotent:
            again = f"yes: it {'only reads' if tool.read_only else 'is idempotent'}"
        for name, choices in (
            ("policy_mode", (("", f"As the tool declares ({tool.hint_mode or 'auto'})"), *MODES)),
            (
                "at_least_once",
                (
                    ("", f"As the tool declares ({again})"),
                    ("yes", "Yes, running it twice is harmless"),
                    ("no", "No, a person decides"),
                ),
            ),
        ):
            self.fields[name].widget.choices = choices

    def clean_at_least_once(self) -> bool | None:
        """`None` to follow what the tool declares."""
        answers = {"": None, "yes": True, "no": False}
        if self.cleaned_data["at_least_once"] not in answers:
            raise forms.ValidationError("Choose yes, no, or as the tool declares.")
        return answers[self.cleaned_data["at_least_once"]]

    def offer_companions(self, tools: Iterable[ToolRow]) -> None:
        """Offer the tools of the server that are annotated as read-only, and the companion that is stored, even if it
        is not."""
        saved = self.tool.companion.get("tool")
        fit = [row for row in tools if row.id != self.tool.id and row.gone_at is None and not row.rejected]
        choices = [(row.name, row.exposed_name) for row in fit if row.read_only or row.name == saved]
        if saved and saved not in dict(choices):
            choices.append((saved, f"{saved} (not offered any more)"))
        self.fields["companion_tool"].widget.choices = [("", "Nobody: people find out"), *choices]

    def companion(self) -> dict[str, Any]:
        """The posted companion; empty if there is none."""
        typed = self.cleaned_data
        if not typed["companion_tool"]:
            return {}
        found = {"tool": typed["companion_tool"], "arguments": typed["companion_arguments"]}
        meanings = {name: _value(text) for name in ("ran", "unrun") if (text := typed[f"companion_{name}"])}
        if typed["companion_field"] or meanings:
            found |= {"field": typed["companion_field"], **meanings}
        return found

    def clean_companion_arguments(self) -> dict[str, Any]:
        """For each argument of the companion, the source of its value."""
        found: dict[str, Any] = {}
        for line in self.cleaned_data["companion_arguments"].splitlines():
            if not line.strip():
                continue
            name, equals, source = (part.strip() for part in line.partition("="))
            if not equals or not name:
                raise forms.ValidationError(f"Write “argument = …”, not {line.strip()[:60]!r}.")
            if name in found:
                raise forms.ValidationError(f"The argument {name} is given twice.")
            found[name] = {"argument": source[1:]} if source.startswith("$") else {"value": _value(source)}
        return found

    def clean_retry_on(self) -> list[str]:
        """The names of errors, each once."""
        return list(dict.fromkeys(self.cleaned_data["retry_on"].replace(",", " ").split()))

    def policy(self) -> Policy:
        """The posted policy; the use case validates it."""
        typed = self.cleaned_data
        return Policy(
            enabled=typed["enabled"],
            policy_mode=typed["policy_mode"] or None,
            policy_at_least_once=typed["at_least_once"],
            question_audience=typed["question_audience"] or None,
            people_after_program=typed["people_after_program"],
            companion=self.companion(),
            retry_on=typed["retry_on"],
            retry_seconds=typed["retry_seconds"],
            max_attempts=typed["max_attempts"],
            run_seconds=typed["run_seconds"],
            join_seconds=typed["join_seconds"],
        )


def _saved(tool: ToolRow) -> dict[str, Any]:
    return {
        "seen": tool.seen,
        "enabled": tool.enabled,
        "policy_mode": tool.policy_mode or "",
        "question_audience": tool.question_audience or "",
        "people_after_program": tool.people_after_program,
        "at_least_once": {None: "", True: "yes", False: "no"}[tool.policy_at_least_once],
        "companion_tool": tool.companion.get("tool", ""),
        "companion_arguments": "\n".join(
            f"{name} = {_source(source)}" for name, source in tool.companion.get("arguments", {}).items()
        ),
        "companion_field": tool.companion.get("field", ""),
        "companion_ran": _typed(tool.companion["ran"]) if "ran" in tool.companion else "",
        "companion_unrun": _typed(tool.companion["unrun"]) if "unrun" in tool.companion else "",
        "retry_on": ", ".join(tool.retry_on),
        "retry_seconds": tool.retry_seconds,
        "max_attempts": tool.max_attempts,
        "run_seconds": tool.run_seconds,
        "join_seconds": tool.join_seconds,
    }


def _source(source: dict[str, Any]) -> str:
    """The source of a companion's argument, as people type it."""
    if "argument" in source:
        return f"${source['argument']}"
    text = _typed(source["value"])
    return json.dumps(text) if text.startswith("$") else text


def _typed(value: Any) -> str:
    """The JSON value as people type it: text without quotes, unless it would then be read as another type."""
    if isinstance(value, str) and _value(value) == value and value == value.strip():
        return value
    return json.dumps(value, ensure_ascii=False)


def _value(text: str) -> Any:
    """The typed text as a JSON value; as a string if it is not JSON."""
    try:
        return jsonx.decode(text.encode("utf-8", "replace"))
    except jsonx.JsonError:
        return text
