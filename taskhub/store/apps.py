"""The one Django app that owns tables."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class StoreConfig(AppConfig):
    """All tables and one migration history."""

    name = "taskhub.store"
    label = "store"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the database's functions and triggers after each `migrate`."""
        from taskhub.store.functions import load_after_migrate

        post_migrate.connect(load_after_migrate, sender=self)
