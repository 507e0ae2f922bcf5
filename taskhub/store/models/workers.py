"""The workers that are, or were."""

from django.db import models
from django.db.models.functions import Now


class Worker(models.Model):
    """A worker process. Alive while `heartbeat_at` is recent."""

    name = models.CharField(max_length=128, unique=True)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    version = models.CharField(max_length=32)
    slots = models.IntegerField()
    busy = models.IntegerField(db_default=0)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "worker"

    def __str__(self) -> str:
        return self.name
