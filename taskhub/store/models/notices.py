"""The outbox: news for receivers outside of the hub, and where they go."""

from typing import Final

from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from taskhub.store.models.people import AuthContext, Membership, Tenant
from taskhub.store.models.tasks import Question

_TO_PEOPLE: Final = ["apprise", "mail", "push", "slack"]
"""The channels to people (`domain.notices.channels`)."""


class Webhook(models.Model):
    """An address to which news is sent. Of the address and the secrets only `origin` is stored in the clear: the rest
    of an address often is a secret too."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=64)
    sealed_url = models.BinaryField()
    origin = models.CharField(max_length=300)
    kinds = ArrayField(models.CharField(max_length=32))
    """What is sent (`domain.notices.kinds`)."""
    context = models.ForeignKey(AuthContext, models.CASCADE, null=True, related_name="+", db_index=False)
    """The client whose news alone is sent."""
    sealed_secret = models.BinaryField()
    sealed_secret_before = models.BinaryField(null=True)
    before_until = models.DateTimeField(null=True)
    """Until when the secret before signs too."""
    enabled = models.BooleanField(db_default=True)
    disabled_why = models.CharField(max_length=200, db_default="")
    failing_since = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, db_default="")
    """Of one that does not answer: what came of the latest delivery."""
    made_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))

    class Meta:
        db_table = "webhook"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="webhook_name_unique"),
            models.CheckConstraint(
                condition=Q(sealed_secret_before__isnull=True, before_until__isnull=True)
                | Q(sealed_secret_before__isnull=False, before_until__isnull=False),
                name="webhook_secret_before_ends",
            ),
            models.CheckConstraint(condition=Q(kinds__len__gte=1), name="webhook_sends_something"),
        ]

    def __str__(self) -> str:
        return self.name


class NoticeChoices(models.Model):
    """What a person is told of, and when, on whichever channel. Gone with their membership."""

    membership = models.OneToOneField(Membership, models.CASCADE, primary_key=True, related_name="+")
    kinds = ArrayField(models.CharField(max_length=32), db_default=[])
    """What is sent (`domain.notices.kinds.PERSONAL`)."""
    pace = models.CharField(max_length=8, db_default="soon")
    daily_at = models.TimeField(null=True)
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    zone = models.CharField(max_length=64, db_default="UTC")
    """In which the times of day are meant, by its name in the IANA database."""

    class Meta:
        db_table = "notice_choices"
        constraints = [
            models.CheckConstraint(
                condition=Q(pace="soon", daily_at__isnull=True) | Q(pace="daily", daily_at__isnull=False),
                name="notice_choices_pace_known",
            ),
            models.CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False) & ~Q(quiet_from=F("quiet_until")),
                name="notice_choices_quiet_ends",
            ),
        ]

    def __str__(self) -> str:
        return f"notices for {self.membership_id}"


class NoticeAddress(models.Model):
    """Where a channel reaches a person; one of each channel."""

    choices = models.ForeignKey(NoticeChoices, models.CASCADE, related_name="+", db_index=False)
    channel = models.CharField(max_length=8)
    """`domain.notices.channels`."""
    address = models.CharField(max_length=254, db_default="")
    """Where messages go; empty until an address is confirmed. Of Apprise, a person's part is encrypted
    (`domain.notices.targets`)."""
    pending = models.CharField(max_length=254, db_default="")
    """The address that the person has still to confirm."""
    name = models.CharField(max_length=100, db_default="")
    """What the channel calls the person at that address, as it was when the link was sent; empty if it is not told."""
    sent_at = models.DateTimeField(null=True)
    """When a message last left, other than one that asks to confirm an address."""

    class Meta:
        db_table = "notice_address"
        constraints = [
            models.UniqueConstraint(fields=["choices", "channel"], name="notice_address_of_a_channel"),
            models.CheckConstraint(condition=Q(channel__in=_TO_PEOPLE), name="notice_address_channel_known"),
            models.CheckConstraint(condition=Q(name="") | ~Q(address=""), name="notice_address_named_if_there"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} of {self.choices_id}"


class PushBrowser(models.Model):
    """A browser of a person that is notified by web push. Gone with its session, if that ends before it is too old."""

    choices = models.ForeignKey(NoticeChoices, models.CASCADE, related_name="+")
    digest = models.BinaryField(max_length=32)
    """SHA-256 of the address that the browser gave."""
    sealed = models.BinaryField()
    """That address with the browser's keys, encrypted."""
    session = models.CharField(max_length=64)
    """The key of the `sign_in` in which it was subscribed. No foreign key: a session that is too old is purged."""
    label = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    made_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    used_at = models.DateTimeField(null=True)
    last_message = models.CharField(max_length=40, db_default="")
    """The message that its push service took last. A person's messages on a channel follow each other."""

    class Meta:
        db_table = "push_browser"
        constraints = [models.UniqueConstraint(fields=["digest"], name="push_browser_digest_unique")]
        indexes = [models.Index(fields=["session"], name="push_browser_by_session")]

    def __str__(self) -> str:
        return self.label


class Notice(models.Model):
    """News of one event for one receiver: a webhook, or a person. An event makes one notice for a receiver at most.

    `attempts` counts the deliveries that were begun; what a delivery came to is stored under its number, so that one
    whose lease was lost changes nothing. A delivery is *early* if it is made before the plan had it due, since the
    webhook answers again: one that fails uses up none of the plan's."""

    public_id = models.CharField(max_length=40)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+", db_index=False)
    event_id = models.BigIntegerField(null=True)
    """Empty for a test. No foreign key: parts of the log are archived."""
    kind = models.CharField(max_length=32)
    channel = models.CharField(max_length=8)
    webhook = models.ForeignKey(Webhook, models.CASCADE, null=True, related_name="+", db_index=False)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+", db_index=False)
    body = models.TextField()
    message = models.CharField(max_length=40, db_default="")
    """The id of the message to a person that this notice is in, the same for all that were gathered in it; empty
    before."""
    state = models.CharField(max_length=8, db_default="due")
    due_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    planned_at = models.DateTimeField(null=True)
    """When the plan has it due, after a delivery that failed; `due_at` is before that for an early one."""
    early_at = models.DateTimeField(null=True)
    """Before this there is no early delivery; empty if there is none before `planned_at`."""
    attempts = models.IntegerField(db_default=0)
    failures = models.IntegerField(db_default=0)
    """Deliveries of the plan that failed."""
    early_failures = models.IntegerField(db_default=0)
    lease_until = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, db_default="")
    queued_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "notice"
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="notice_public_id_unique"),
            models.UniqueConstraint(fields=["event_id", "webhook"], name="notice_once_for_a_webhook"),
            models.UniqueConstraint(fields=["event_id", "user", "channel"], name="notice_once_for_a_person"),
            models.CheckConstraint(
                condition=Q(channel="webhook", webhook__isnull=False, user__isnull=True)
                | Q(channel__in=_TO_PEOPLE, webhook__isnull=True, user__isnull=False),
                name="notice_has_its_receiver",
            ),
            models.CheckConstraint(
                condition=Q(state="due", ended_at__isnull=True)
                | Q(state__in=["sent", "failed", "skipped"], ended_at__isnull=False, lease_until__isnull=True),
                name="notice_state_fits",
            ),
            models.CheckConstraint(
                condition=Q(channel__in=_TO_PEOPLE) | Q(message="") & ~Q(state="skipped"), name="notice_in_a_message"
            ),
        ]
        indexes = [
            models.Index(fields=["webhook", "due_at", "id"], condition=Q(state="due"), name="notice_due_to_a_webhook"),
            models.Index(fields=["due_at"], condition=Q(state="due"), name="notice_due"),
            models.Index(fields=["webhook"], condition=Q(lease_until__isnull=False), name="notice_under_way"),
            models.Index(fields=["webhook", "-id"], name="notice_newest_of_a_webhook"),
            models.Index(
                fields=["user", "channel", "due_at", "id"],
                condition=Q(state="due", user__isnull=False),
                name="notice_due_to_a_person",
            ),
            models.Index(
                fields=["user", "channel", "-id"], condition=Q(user__isnull=False), name="notice_newest_of_a_person"
            ),
            models.Index(fields=["queued_at"], name="notice_age"),
        ]

    def __str__(self) -> str:
        return self.public_id


class Delivery(models.Model):
    """One attempt to deliver a notice. Without `ended_at` it is under way, or its worker was lost."""

    notice = models.ForeignKey(Notice, models.CASCADE, related_name="+", db_index=False)
    number = models.IntegerField()
    began_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    ended_at = models.DateTimeField(null=True)
    status = models.IntegerField(null=True)
    answer = models.CharField(max_length=500, db_default="")
    """The first characters of what the receiver answered."""
    problem = models.CharField(max_length=300, db_default="")

    class Meta:
        db_table = "delivery"
        constraints = [
            models.UniqueConstraint(fields=["notice", "number"], name="delivery_number_unique"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("began_at")), name="delivery_ends_after_begin"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.notice_id} {self.number}"


class SlackMessage(models.Model):
    """A message in Slack with approvals, stored before it is posted: a click may come before the answer to that does.

    `changes` counts what changed since; what was drawn is stored with the count that it knew of, so that a change
    meanwhile is drawn too."""

    notice = models.OneToOneField(Notice, models.CASCADE, primary_key=True, related_name="+")
    """The first that is told in it."""
    public_id = models.CharField(max_length=40)
    """`Notice.message` of all that are told in it."""
    conversation = models.CharField(max_length=32, db_default="")
    ts = models.CharField(max_length=32, db_default="")
    """Where Slack has it; both empty until it is posted."""
    more = models.IntegerField(db_default=0)
    """Approvals that it tells of besides its cards, as a number."""
    shown = models.CharField(max_length=64, db_default="")
    """The SHA-256 of it as it was posted or last drawn anew."""
    changes = models.IntegerField(db_default=0)
    look_at = models.DateTimeField(null=True)
    """When it is looked at whether it has to be drawn anew, or the end of the lease of a worker that does; null while
    nothing has changed."""
    tries = models.IntegerField(db_default=0)
    """How often drawing it anew has failed since something changed."""

    class Meta:
        db_table = "slack_message"
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="slack_message_once"),
            models.CheckConstraint(
                condition=Q(conversation="", ts="") | ~Q(conversation="") & ~Q(ts=""),
                name="slack_message_has_its_place",
            ),
        ]
        indexes = [
            models.Index(fields=["look_at"], condition=Q(look_at__isnull=False), name="slack_message_changed"),
        ]

    def __str__(self) -> str:
        return self.public_id


class SlackCard(models.Model):
    """An approval in a message in Slack."""

    notice = models.OneToOneField(Notice, models.CASCADE, primary_key=True, related_name="+")
    message = models.ForeignKey(SlackMessage, models.CASCADE, related_name="+", db_index=False)
    question = models.ForeignKey(Question, models.CASCADE, related_name="+", db_index=False)
    call_digest = models.CharField(max_length=64)
    """That of the question when the card was written: what the person decides by it."""
    refused = models.CharField(max_length=500, db_default="")
    """Why a click was refused, after which the card has no buttons; empty if none was."""

    class Meta:
        db_table = "slack_card"
        indexes = [
            models.Index(fields=["question"], name="slack_card_of_a_question"),
            models.Index(fields=["message"], name="slack_card_of_a_message"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} {self.question_id}"
