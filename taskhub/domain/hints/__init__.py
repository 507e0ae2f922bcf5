"""Hints: messages that mean "look again", sent to every process after a commit.

A hint names a topic and an id, never content: a process that hears it reads the database. It goes out right after the
commit (decision 8) by NOTIFY, from `announce` for changes made through Python and from triggers for the rest. A lost
hint only delays: every waiter also looks again by itself from time to time. `generation` counts the hints that a
process has received, so that people who look at the same page share one read.
"""
