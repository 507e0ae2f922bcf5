"""The one Django app that owns tables."""

from django.apps import AppConfig


class StoreConfig(AppConfig):
    """All tables and one migration history."""

    name = "taskhub.store"
    label = "store"
    default_auto_field = "django.db.models.BigAutoField"
