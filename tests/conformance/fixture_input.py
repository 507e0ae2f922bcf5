"""Fixtures that ask: elicitation, sampling, roots and request state in several rounds.

The server seals request state itself (see `fixture_server`), so a tool sees either exactly
what it gave out or nothing; a changed state is refused before the tool runs.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mcp import MCPError
from mcp.server import MCPServer
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
)

from .fixture_common import NEVER, Ctx, ask, elicited, field, form, name_form, roots, sample, sampled

STATE: Final = "state-of-round-1"


def register(server: MCPServer[Any]) -> None:
    _register_one_round(server)
    _register_state(server)
    _register_capabilities(server)
    _register_2025(server)


def _register_one_round(server: MCPServer[Any]) -> None:
    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_elicitation(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a name and greet."""
        name = field(ctx, "user_name", "name", str)
        if name is not None:
            return f"Hello, {name}!"
        return _not_given(ctx, "user_name") or ask(user_name=name_form())

    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_sampling(ctx: Ctx) -> str | InputRequiredResult:
        """Ask the client's model for a capital."""
        text = sampled(ctx, "capital_question")
        return text if text is not None else ask(capital_question=sample("What is the capital of France?", 100))

    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_list_roots(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for the client's roots."""
        uris = roots(ctx, "client_roots")
        return f"Roots: {', '.join(uris)}" if uris is not None else ask(client_roots=ListRootsRequest())


def _register_state(server: MCPServer[Any]) -> None:
    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_request_state(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a confirmation and expect the state back."""
        return _confirm_with_state(ctx)

    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_tampered_state(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a confirmation with a state that must come back untouched."""
        return _confirm_with_state(ctx)

    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_multiple_inputs(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a name, a greeting and the roots at once."""
        name = field(ctx, "user_name", "name", str)
        greeting = sampled(ctx, "greeting")
        uris = roots(ctx, "client_roots")
        if name is None or greeting is None or uris is None:
            return ask(
                STATE,
                user_name=name_form(),
                greeting=sample("Generate a greeting", 50),
                client_roots=ListRootsRequest(),
            )
        return f"{greeting} {name} has {len(uris)} root(s)"

    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_multi_round(ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a name, then for a colour; the name travels in the state."""
        state: dict[str, str] = json.loads(ctx.request_state) if ctx.request_state else {}
        name = state.get("name") or field(ctx, "step1", "name", str)
        if not isinstance(name, str):
            question = form("Step 1: What is your name?", {"name": {"type": "string"}})
            return ask(json.dumps({"round": "1"}), step1=question)
        color = field(ctx, "step2", "color", str)
        if color is None:
            question = form("Step 2: What is your favorite color?", {"color": {"type": "string"}})
            return ask(json.dumps({"round": "2", "name": name}), step2=question)
        return f"{name} likes {color}"


def _register_capabilities(server: MCPServer[Any]) -> None:
    @server.tool(meta=NEVER, structured_output=False)
    def test_input_required_result_capabilities(ctx: Ctx) -> str | InputRequiredResult:
        """Ask only what this request's client declared that it can answer."""
        declared = ctx.client_capabilities
        questions: dict[str, InputRequest] = {}
        if declared is not None and declared.elicitation is not None and elicited(ctx, "user_name") is None:
            questions["user_name"] = name_form()
        if declared is not None and declared.sampling is not None and sampled(ctx, "greeting") is None:
            questions["greeting"] = sample("Generate a greeting", 50)
        if declared is not None and declared.roots is not None and roots(ctx, "client_roots") is None:
            questions["client_roots"] = ListRootsRequest()
        return ask(**questions) if questions else "Nothing left to ask"

    @server.tool(meta=NEVER, structured_output=False)
    def test_missing_capability(ctx: Ctx) -> str:
        """Refuse a client that did not declare sampling."""
        if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                "This tool needs the sampling capability",
                {"requiredCapabilities": {"sampling": {}}},
            )
        return "The client declared sampling"

    @server.tool(meta=NEVER, structured_output=False)
    async def test_streaming_elicitation(ctx: Ctx) -> str | InputRequiredResult:
        """Report progress on the stream, then ask."""
        await ctx.report_progress(0, 1, "About to ask")
        name = field(ctx, "user_name", "name", str)
        if name is not None:
            return f"Hello, {name}!"
        return _not_given(ctx, "user_name") or ask(user_name=name_form())


def _register_2025(server: MCPServer[Any]) -> None:
    """Tools of the older suites; the hub turns their questions into requests to a 2025 client."""

    @server.tool(meta=NEVER, structured_output=False)
    def test_sampling(prompt: str, ctx: Ctx) -> str | InputRequiredResult:
        """Have the client's model answer a prompt."""
        text = sampled(ctx, "response")
        return f"LLM response: {text}" if text is not None else ask(response=sample(prompt, 100))

    @server.tool(meta=NEVER, structured_output=False)
    def test_elicitation(message: str, ctx: Ctx) -> str | InputRequiredResult:
        """Ask for a user name and an address."""
        answer = elicited(ctx, "response")
        if answer is None:
            properties = {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }
            return ask(response=form(message, properties))
        return f"User response: {_said(answer)}"

    @server.tool(meta=NEVER, structured_output=False)
    def test_elicitation_sep1034_defaults(ctx: Ctx) -> str | InputRequiredResult:
        """Ask with a default for every kind of field."""
        answer = elicited(ctx, "response")
        if answer is None:
            properties = {
                "name": {"type": "string", "description": "User name", "default": "John Doe"},
                "age": {"type": "integer", "description": "User age", "default": 30},
                "score": {"type": "number", "description": "User score", "default": 95.5},
                "status": {
                    "type": "string",
                    "description": "User status",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": {"type": "boolean", "description": "Verification status", "default": True},
            }
            return ask(response=form("Please review and update the form fields with defaults", properties, []))
        return f"Elicitation completed: {_said(answer)}"

    @server.tool(meta=NEVER, structured_output=False)
    def test_elicitation_sep1330_enums(ctx: Ctx) -> str | InputRequiredResult:
        """Ask with every kind of enumeration."""
        answer = elicited(ctx, "response")
        if answer is None:
            values = ["value1", "value2", "value3"]
            titles = ["First Option", "Second Option", "Third Option"]
            titled = [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]
            options = ["option1", "option2", "option3"]
            properties = {
                "untitledSingle": {"type": "string", "description": "One option", "enum": options},
                "titledSingle": {"type": "string", "description": "One titled option", "oneOf": titled},
                "legacyEnum": {
                    "type": "string",
                    "description": "One option with the older way to give titles",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {
                    "type": "array",
                    "description": "Several options",
                    "items": {"type": "string", "enum": options},
                },
                "titledMulti": {
                    "type": "array",
                    "description": "Several titled options",
                    "items": {"anyOf": titled},
                },
            }
            return ask(response=form("Please select options from the enum fields", properties, []))
        return f"Elicitation completed: {_said(answer)}"


def _confirm_with_state(ctx: Ctx) -> str | InputRequiredResult:
    if ctx.request_state is not None and ctx.request_state != STATE:
        raise MCPError(INVALID_PARAMS, "Unknown request state")
    ok = field(ctx, "confirm", "ok", bool)
    if ctx.request_state is None or ok is None:
        return ask(STATE, confirm=form("Please confirm", {"ok": {"type": "boolean"}}))
    return f"state-ok, confirmed: {json.dumps(ok)}"


def _not_given(ctx: Ctx, key: str) -> str | None:
    """What to say when the person declined; None when there is simply no usable answer yet."""
    answer = elicited(ctx, key)
    return f"No name was given: {answer.action}" if answer is not None and answer.action != "accept" else None


def _said(answer: ElicitResult) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content or {})}"
