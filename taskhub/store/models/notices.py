"""The outbox: notices for receivers outside of the hub, and the addresses of these receivers."""

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
    """An address to which notices are sent. Only `origin` is stored in the clear, because the rest of the address often
    is a secret too, as the signing secrets are."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=64)
    sealed_url = models.BinaryField()
    origin = models.CharField(max_length=300)
    kinds = ArrayField(models.CharField(max_length=32))
    """The kinds of events that are sent (`domain.notices.kinds`)."""
    context = models.ForeignKey(AuthContext, models.CASCADE, null=True, related_name="+", db_index=False)
    """The only client about which notices are sent; null for all."""
    sealed_secret = models.BinaryField()
    sealed_secret_before = models.BinaryField(null=True)
    before_until = models.DateTimeField(null=True)
    """Until when messages are signed with the earlier secret too."""
    enabled = models.BooleanField(db_default=True)
    disabled_why = models.CharField(max_length=200, db_default="")
    failing_since = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, db_default="")
    """The problem of the latest delivery, if the webhook does not answer; else empty."""
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
    """Which messages a person gets, and when; the same for all channels. Deleted with their membership."""

    membership = models.OneToOneField(Membership, models.CASCADE, primary_key=True, related_name="+")
    kinds = ArrayField(models.CharField(max_length=32), db_default=[])
    """The kinds of news that are sent (`domain.notices.kinds.PERSONAL`)."""
    pace = models.CharField(max_length=8, db_default="soon")
    daily_at = models.TimeField(null=True)
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    zone = models.CharField(max_length=64, db_default="UTC")
    """The time zone of the times of day, by its name in the IANA database."""

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
    """The address at which a channel reaches a person. There is one for each channel."""

    choices = models.ForeignKey(NoticeChoices, models.CASCADE, related_name="+", db_index=False)
    channel = models.CharField(max_length=8)
    """One of `domain.notices.channels`."""
    address = models.CharField(max_length=254, db_default="")
    """The address to which messages go; empty until one is confirmed. An address for Apprise is encrypted where it is a
    person's own (`domain.notices.targets`)."""
    pending = models.CharField(max_length=254, db_default="")
    """A new address that the person has not confirmed yet; empty for none."""
    name = models.CharField(max_length=100, db_default="")
    """The name that the channel gave the person at that address when the link was sent; empty if the channel gives
    none."""
    sent_at = models.DateTimeField(null=True)
    """When a message last left; messages that ask to confirm an address do not count."""

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
    """A browser of a person that is notified by web push. Deleted when its session ends, unless it ends by its age."""

    choices = models.ForeignKey(NoticeChoices, models.CASCADE, related_name="+")
    digest = models.BinaryField(max_length=32)
    """The SHA-256 of the address of the push service that the browser gave."""
    sealed = models.BinaryField()
    """The same address and the browser's keys, encrypted."""
    session = models.CharField(max_length=64)
    """The key of the `sign_in` in which the browser was added. It is no foreign key, because sign-ins that are too old
    are purged."""
    label = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    made_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    used_at = models.DateTimeField(null=True)
    last_message = models.CharField(max_length=40, db_default="")
    """The id of the message that the push service of this browser took last. Messages to a person on a channel are sent
    one after the other."""

    class Meta:
        db_table = "push_browser"
        constraints = [models.UniqueConstraint(fields=["digest"], name="push_browser_digest_unique")]
        indexes = [models.Index(fields=["session"], name="push_browser_by_session")]

    def __str__(self) -> str:
        return self.label


class Notice(models.Model):
    """News of one event for one receiver: a webhook, or a person. An event makes at most one notice for a receiver and
    channel.

    `attempts` counts the deliveries that were begun. The outcome of a delivery is stored under its number, so that a
    delivery whose lease was lost changes nothing. A delivery is *early* if it is made before its planned time, because
    the webhook answers again. An early delivery that fails leaves the plan as it is.
    """

    public_id = models.CharField(max_length=40)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+", db_index=False)
    event_id = models.BigIntegerField(null=True)
    """The event's id; null for a test. It is no foreign key, because parts of the audit log are archived."""
    kind = models.CharField(max_length=32)
    channel = models.CharField(max_length=8)
    webhook = models.ForeignKey(Webhook, models.CASCADE, null=True, related_name="+", db_index=False)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+", db_index=False)
    body = models.TextField()
    message = models.CharField(max_length=40, db_default="")
    """The id of the message to a person that has this notice; all notices of the message have the same. Empty until
    there is such a message."""
    state = models.CharField(max_length=8, db_default="due")
    due_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    planned_at = models.DateTimeField(null=True)
    """The planned time of the next delivery, after one that failed. `due_at` is earlier than this for an early
    delivery."""
    early_at = models.DateTimeField(null=True)
    """The time before which there is no early delivery; null if there is none before `planned_at`."""
    attempts = models.IntegerField(db_default=0)
    failures = models.IntegerField(db_default=0)
    """How many planned deliveries have failed."""
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
    """One attempt to deliver a notice. As long as `ended_at` is null it is under way, or its worker was lost."""

    notice = models.ForeignKey(Notice, models.CASCADE, related_name="+", db_index=False)
    number = models.IntegerField()
    began_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    ended_at = models.DateTimeField(null=True)
    status = models.IntegerField(null=True)
    answer = models.CharField(max_length=500, db_default="")
    """The beginning of the receiver's answer."""
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
    """A message in Slack with approvals. It is stored before it is posted, because a click may come before Slack's
    answer.

    `changes` counts what has changed since the message was posted. Drawing the message again stores the count that was
    drawn, so that a change meanwhile is not lost.
    """

    notice = models.OneToOneField(Notice, models.CASCADE, primary_key=True, related_name="+")
    """The first notice in the message."""
    public_id = models.CharField(max_length=40)
    """`Notice.message` of all notices in the message."""
    conversation = models.CharField(max_length=32, db_default="")
    ts = models.CharField(max_length=32, db_default="")
    """With `conversation`, the place of the message in Slack; both are empty until it is posted."""
    more = models.IntegerField(db_default=0)
    """How many approvals the message mentions besides its cards."""
    shown = models.CharField(max_length=64, db_default="")
    """The SHA-256 of the message as it was posted or last drawn."""
    changes = models.IntegerField(db_default=0)
    look_at = models.DateTimeField(null=True)
    """When a worker shall check whether the message has to be drawn again; while a worker does that, the end of its
    lease. Null while nothing has changed."""
    tries = models.IntegerField(db_default=0)
    """How often drawing the message has failed since something changed."""

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
    """The digest of the call when the card was written, which the person decides on."""
    refused = models.CharField(max_length=500, db_default="")
    """Why a click on the card was refused; it has no buttons since. Empty if none was refused."""

    class Meta:
        db_table = "slack_card"
        indexes = [
            models.Index(fields=["question"], name="slack_card_of_a_question"),
            models.Index(fields=["message"], name="slack_card_of_a_message"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} {self.question_id}"
