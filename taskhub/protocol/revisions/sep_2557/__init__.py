"""SEP-2557 as it was proposed, closed 2026-04-29 and never published, on a mount of its own: `/mcp/sep-2557`.

The text of the proposal is lost; only passages that were quoted in its discussion are left. It has its own mount
because it lets a server hand out tasks that the client did not ask for, which `/mcp` may not. Where the passages are
silent, this is decided:

- **Base wire.** The proposal changes a draft that was published as 2026-07-28 and has no version of its own, so
  headers, `_meta` and `server/discover` name that version. As in the draft, lists have no cache hints, and no
  extensions are declared.
- **Offered.** Tools and tasks. Prompts and resources are no part of the proposal: they are not declared here, and their
  methods are not found.
- **Who gets a task.** Everybody, by the tool's mode alone. `always` and `required`: at once. `auto`: if there is no
  result within the inline wait, or a question comes first. `never`: nobody; the caller waits for the result, and a
  question to the client ends the wait with an `incomplete` round. Which questions the client can answer is read from
  what the call declares, as on the base wire.
- **`resultType`.** `task` on every result that holds a Task: the handle, `tasks/get`, `tasks/cancel`. Only the handle
  nests the Task; the other two are flat. An inlined `result` has its own `resultType`, `complete`.
- **`ttl`** is rounded up to whole seconds, so that it is never 0.
- **`requestState`** is on every Task: encrypted, bound to the task and its owner, valid for 30 days. It names the task
  and holds nothing of its state, so an old value is as good as a new one, and a client that sends none is served too. A
  value that is altered, expired or somebody else's is refused with -32602 and HTTP 400, before any task is looked up.
- **Answers** in `tasks/get` are all checked before any is stored; one that does not fit its question is refused with
  -32602 and a pointer. Keys of questions that are unknown or answered are ignored, also on an ended task.
- **Cancel** records a request, and the reply shows the task right after it: perhaps still `working`. For a task that
  has ended, cancelled or not, it is refused with -32602.
- **Headers.** `Mcp-Method` is required on notifications too. A missing `Mcp-Name` is refused like a wrong one, with the
  published code -32020.
- **`notifications/tasks/status`** comes on `subscriptions/listen` with `taskIds`: the task as it stands at first and
  after each change, with its payload, a `requestState`, and no `resultType`.
- **Waiting for people** shows as `working` with a `statusMessage`, as in every revision.
"""

from typing import Final

from taskhub.core.versions import Proposal, Version

VERSION: Final = Proposal.SEP_2557
"""The revision of its tasks, which is also the name of its mount."""

WIRE: Final = Version.MCP_2026_07_28
"""The version of the base wire."""
