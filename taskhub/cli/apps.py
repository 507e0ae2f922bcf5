"""The Django app of the management commands; it has no models."""

from django.apps import AppConfig


class CliConfig(AppConfig):
    """The commands of `manage.py`."""

    name = "taskhub.cli"
    label = "cli"
