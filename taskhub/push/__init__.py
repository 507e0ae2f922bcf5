"""From a hint of the database to those who wait for it: requests and streams of this process, and browsers.

It carries topics and never data: who hears one reads again by the ordinary way.
"""
