"""The first steps of `up`, in the order it takes them, as a program of its own; see `_prepared` in `hub.py`."""

from __future__ import annotations

import os

import django


def main() -> None:
    """Migrate the database and fill the data directory of the environment."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "taskhub.config.settings"
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from taskhub.cli.firstrun import make_people
    from taskhub.cli.static import collect_if_changed

    settings.DATA_DIR.chmod(0o711)
    call_command("migrate", verbosity=0, interactive=False)
    make_people(settings.DATA_DIR, "http://localhost")
    collect_if_changed()


if __name__ == "__main__":
    main()
