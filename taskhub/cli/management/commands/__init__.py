"""A module for each command of `manage.py`, except `worker`, which is in `taskhub/worker`."""
