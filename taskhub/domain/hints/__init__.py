"""Hints: "look again", told to every process when something was committed.

A hint names a topic and an id, never content: a process that hears it reads the database. It goes out right after the
commit (decision 8) by NOTIFY, from `announce` for changes made through Python and from triggers for the rest. Lost
hints cost time, never truth: all waiters also look by themselves. `generation` counts what pages have heard, so that
many people who see the same page share one read.
"""
