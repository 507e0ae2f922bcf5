"""The Django app of the command `manage.py worker`; it has no models."""

from django.apps import AppConfig


class WorkerConfig(AppConfig):
    """The command `manage.py worker`."""

    name = "taskhub.worker"
    label = "worker"
