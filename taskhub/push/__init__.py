"""Passes hints of the database on to what waits for them: requests and streams of this process, and browsers.

Only topics are passed on, never data: the receiver reads again in the ordinary way.
"""
