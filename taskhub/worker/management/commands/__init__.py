"""The command `manage.py worker`."""
