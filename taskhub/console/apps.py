"""The Django app of the console. It has no models, and is installed for its template tags."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The app `console`."""

    name = "taskhub.console"
    label = "console"
