"""`manage.py worker`."""
