"""The commands of `manage.py`, and the parts of `up`: supervisor, web server, embedded Postgres, first run."""
