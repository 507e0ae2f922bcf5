"""SEP-1686 as it was written, before it was edited into 2025-11-25: the client makes the task's id.

No protocol version of its own: it rides on a session of any of these versions, by its key in `_meta`
(T1686-*). Where the text is silent or contradicts itself:

- `tools/call` is the only request that becomes a task; on others, and on tools that never run as a
  task, the key is ignored (T1686-02).
- An id is used once for as long as the hub keeps the task, also after `tasks/delete` (T1686-05). It
  belongs to the principal, or where callers cannot be told apart to the session (T1686-04).
- `tasks/list` is one for both revisions: it shows what the session's `tasks/get` would find, each task in
  the words of its own. The other methods go by the task that the id names.
- Only an ended task can be deleted (T1686-15). The console keeps it.
- `unknown` is never shown: the state of a task is not lost (T1686-20).
"""
