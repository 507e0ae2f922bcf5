"""The hub's own sentences about a task, for its `statusMessage` and its error's message. They stand only in this table:
`store.functions` makes the function `th_words` from it, by which database functions get a sentence by its code and fill
in `%s` as Python does."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

WORDS: Final = MappingProxyType({
    "waiting_approval": "Waiting for approval, %s of %s",
    "waiting_approval_by": "Waiting for approval by %s, %s of %s",
    "waiting_again": "%s: %s",
    "waiting_operator": "Waiting for an answer by an operator",
    "waiting_answer": "Waiting for an answer",
    "waiting_answers": "Waiting for %s answers",
    "more_answer": "1 more answer needed",
    "more_answers": "%s more answers needed",
    "edited": "An approver changed %s",
    "came_along": "Came with the call",
    "programs_no": "By the program itself, within a second of being asked",
    "people_after_program": "The client's program declined by itself",
    "waiting_server": "Waiting for its server, which could not be reached",
    "waiting_authorization": "Waiting for somebody to authorize it: %s",
    "authorizing": "Waiting until its server’s authorization can be refreshed",
    "paused": "Paused: server %s is disabled",
    "cancel_requested": "Cancel requested",
    "cancelled_unstarted": "Cancelled before it ran",
    "cancelled_between": "Cancelled while it waited to go on",
    "cancelled_running": "Cancelled while it ran",
    "cancelled_unruled": "Cancelled; whether the tool ran is not known",
    "cancelled_unconfirmed": "Cancelled; the tool did not confirm that it stopped",
    "server_lost": "The connection to server %s was lost while the tool ran: outcome unknown",
    "server_unanswered": "%s came instead of an answer of server %s: outcome unknown",
    "server_later": "Server %s wants to be called later: %s",
    "session_worker_lost": "the worker that had it was lost or stopped",
    "state_lost": "What server %s kept for this client before this call is lost: %s",
    "cancelled_by_server": "Cancelled by its server",
    "upstream_unknown": "Server %s no longer knows the task of this call (%s): outcome unknown",
    "upstream_silent": "Server %s could not be asked for this call for as long as its tool may run: outcome unknown",
    "worker_stopped": "The worker was stopped while the tool ran: outcome unknown",
    "worker_lost": "The worker was lost while the tool ran: outcome unknown",
    "worker_lost_often": "The worker was lost %s times: outcome unknown",
    "worker_lost_requeued": "The worker was lost; queued to run again",
    "task_lost_requeued": "Server %s no longer has the task of this call; queued to run again",
    "server_lost_requeued": "The connection to server %s was lost; queued to run again",
    "tried_again": "Attempt %s of %s failed, another follows: %s",
    "waiting_ruling": "%s. Waiting for a person who says whether the tool ran",
    "outcome_unruled": "%s; nobody said in time whether the tool ran",
    "nobody_decided": "nobody decided within %s",
    "nobody_decided_deny": "Nobody decided within %s, so the rule denied it",
    "nobody_decided_allow": "Nobody decided within %s, so the rule let it run",
    "nobody_decided_escalate": "Nobody decided within %s, so the rule asks the group %s",
    "not_approved": "%s was not approved: %s.",
    "input_timeout": "Nobody answered in time",
    "expired": "Expired before a worker took it",
    "not_run": "Not run: %s",
    "not_continued": "Not continued: %s",
    "permitted": "Approved. The client got a permit, and makes the call itself.",
    "not_permitted": "No permit: %s",
    "server_removed": "its server has been removed",
    "client_locked_out": "its client has been locked out",
    "tool_turned_off": "the tool has been turned off",
    "tool_not_offered": "the tool is not offered any more",
    "tool_rejected": "the tool is not offered any more: %s",
    "tool_changed": "the tool has changed since it was called",
    "approved_tool_changed": "the tool has changed since the call was approved",
    "approved_call_changed": "the call or its server's address has changed since it was approved",
    "approver_left": "somebody who approved it may not approve it any more",
    "preview_changed": "its preview shows something else than when it was approved",
    "outdated_while_previewed": "While its preview ran again, something changed of what had been looked at before",
    "undecided": "The rules could not be asked about it",
    "rules_changed": "the rules, the tool or the rights of its caller have changed since it was called",
    "hidden_by_rule": "a rule of this hub hides this tool from its client",
    "bypass_over": "the bypass that would have let it run is over",
})  # fmt: skip


def words(code: str, *given: object) -> str:
    """The sentence of this code, with `given` for its `%s`. Raises `KeyError` for an unknown code."""
    return WORDS[code] % given


def waiting_for_approval(group: str, counted: int, quorum: int) -> str:
    """The message of a task that waits for approval: the group that has to approve, and how many have done so."""
    if group:
        return words("waiting_approval_by", group, counted, quorum)
    return words("waiting_approval", counted, quorum)
