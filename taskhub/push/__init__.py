"""Passes hints of the database on to the requests and streams of this process that wait for them, and to browsers.

Only topics are passed on, never data: the receiver reads the database again.
"""
