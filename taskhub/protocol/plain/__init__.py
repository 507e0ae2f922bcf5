"""Plain calls: clients that know nothing of tasks make a `tools/call` and wait for its answer.

A caller that asked for progress gets it while it waits. When its patience is over, which is before its program gives
up, it gets an interim result: an ordinary result that says where the call stands and how to go on. To go on, it calls
the hub's own tools, which are listed to such clients only, or makes the same call again, which joins the task. If the
caller leaves, its task goes on for a while, and for as long as a person is asked, so that the same call can join it.

- `callers`: one caller, from its call to the answer: how long it waits, and what happens when it leaves.
- `interim`: the result of a call that has not ended.
- `tools`: the hub's own tools.

The revisions put this into their own messages. Clients that declare tasks are not affected.
"""
