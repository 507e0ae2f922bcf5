"""Calls of clients that know nothing of tasks: they make a plain `tools/call` and wait for its answer.

While such a caller waits it is told how it goes, if it asked for progress. When its patience is over, before the limit
of its own program, it is given an ordinary result that says where the call stands and how to go on: by the hub's own
tools, which only these clients are listed, or by the same call again, which joins the task. Leaving loses nothing
either: the call goes on for a while, and for as long as a person is asked.

- `callers`: one caller, from its call to the answer: how long it waits, that it leaves.
- `interim`: the result of a call that has not ended.
- `tools`: the hub's own tools.

Revisions say on their wires what is decided here. Nothing of this touches clients that declare tasks.
"""
