"""The audit log: events that are only ever added, and the seals over them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from taskhub.store.models.people import Tenant


class Event(models.Model):
    """An entry of the audit log. Append-only: triggers refuse UPDATE, DELETE and TRUNCATE.

    `xid` is the id of the transaction that wrote the event: events of transactions that have ended can be sealed. There
    is no foreign key to `task`, because events outlive purged tasks.
    """

    tenant = models.ForeignKey(Tenant, models.DO_NOTHING, null=True, db_constraint=False, db_index=False)
    task_id = models.BigIntegerField(null=True)
    task_version = models.IntegerField(null=True)
    action = models.CharField(max_length=64)
    actor = models.CharField(max_length=255)
    door = models.CharField(max_length=8)
    address = models.CharField(max_length=64, db_default="")
    context_id = models.BigIntegerField(null=True)
    user_id = models.BigIntegerField(null=True)
    target = models.CharField(max_length=255, db_default="")
    reason = models.CharField(max_length=1024, db_default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    xid = models.BigIntegerField(db_default=models.Func(template="((pg_current_xact_id())::text)::bigint"))

    class Meta:
        db_table = "event"
        indexes = [
            models.Index(fields=["task_id", "id"], condition=Q(task_id__isnull=False), name="event_by_task"),
            models.Index(fields=["tenant", "-id"], name="event_newest"),
            models.Index(fields=["tenant", "action", "-id"], name="event_newest_by_action"),
            models.Index(fields=["xid", "id"], name="event_by_transaction"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"


class Seal(models.Model):
    """A signed statement about all events of the transactions from `from_xid` to before `to_xid`.

    `event_ids` and `leaves` (32 bytes per event, in the same order) let verification name the first
    bad event. The signature covers the Merkle root of the leaves and the previous seal.
    """

    from_xid = models.BigIntegerField()
    to_xid = models.BigIntegerField(unique=True)
    count = models.IntegerField()
    event_ids = ArrayField(models.BigIntegerField())
    leaves = models.BinaryField()
    root = models.BinaryField(max_length=32)
    previous = models.BinaryField(max_length=32)
    signature = models.BinaryField(max_length=64)
    key_id = models.CharField(max_length=16)
    at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))

    class Meta:
        db_table = "seal"

    def __str__(self) -> str:
        return f"seal to {self.to_xid}"
