#!/usr/bin/env python3
"""A PreToolUse hook of Claude Code: has each call approved in TaskHub before it is made.

It reads the call from standard input, and prints the decision. Whatever goes wrong is a "deny", since a hook that fails
blocks nothing. The variables it reads: docs/use/approvals.md.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

try:
    from taskhub_approvals import Answer, Approvals, token
except Exception as missing:
    print(missing, file=sys.stderr)
    sys.exit(2)  # which blocks the call too

DECISIONS = {"allow": "allow", "deny": "deny", "pending": "deny", "unknown": "ask"}


def called(name: str) -> tuple[str, str] | None:
    """The server and the tool of a call, as TaskHub knows them; `None` for a tool that is not to be decided."""
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        known = dict(pair.split("=", 1) for pair in os.environ.get("TASKHUB_SERVERS", "").split(",") if pair)
        return known.get(server, server), tool
    own = os.environ.get("TASKHUB_OWN_TOOLS", "")
    return (own, name) if own else None


def decided(call: dict[str, Any]) -> Answer | None:
    """Whether the call may be made; `None` for a tool that is not to be decided."""
    found = called(call["tool_name"])
    if found is None:
        return None
    approvals = Approvals(os.environ["TASKHUB_URL"], token(), program="claude-code")
    wait = float(os.environ.get("TASKHUB_WAIT", "300"))
    return approvals.ask(*found, call["tool_input"], wait=wait, session=str(call.get("session_id", "")))


def main() -> None:
    try:
        answer = decided(json.load(sys.stdin))
    except Exception as error:
        answer = Answer("deny", f"TaskHub could not be asked: {error!r}")
    if answer is not None:
        decision = {
            "hookEventName": "PreToolUse",
            "permissionDecision": DECISIONS.get(answer.status, "deny"),
            "permissionDecisionReason": answer.words,
        }
        print(json.dumps({"hookSpecificOutput": decision}))


if __name__ == "__main__":
    main()
