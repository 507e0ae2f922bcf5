"""Consumers of the feed of committed events."""

from django.db import models


class FeedConsumer(models.Model):
    """A consumer of the feed, and its place there: the position of the last event that it has read. The trigger
    `feed_consumer_guard` refuses to move the place back."""

    name = models.CharField(max_length=32, primary_key=True)
    xid = models.BigIntegerField()
    event_id = models.BigIntegerField()
    moved_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))

    class Meta:
        db_table = "feed_consumer"

    def __str__(self) -> str:
        return self.name
