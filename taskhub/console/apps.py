"""Installed so that Django finds the console's template tags; it has no models."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The browser's side of TaskHub."""

    name = "taskhub.console"
    label = "console"
