"""A module for each command of `manage.py`, but for `worker`, which is in the worker's room."""
