"""The commands of `manage.py`, and what `up` is made of: supervisor, web server, embedded Postgres, first run."""
