"""Tenants, people's roles and browser sessions, clients (auth contexts) and their tokens."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

PATIENCE_RANGE_MS = (1_000, 3_600_000)


class Tenant(models.Model):
    """A tenant. No data of one tenant is ever visible to another."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "tenant"

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A person's one role in a tenant, and the person's groups of approvers."""

    tenant = models.ForeignKey(Tenant, models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    role = models.CharField(max_length=16)
    groups = ArrayField(models.CharField(max_length=64), default=list, db_default=[], blank=True)
    password_due = models.BooleanField(default=False, db_default=False)
    """Whether somebody else set the password: the person sees nothing before it is changed."""
    granted_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    """When the person last got a role or groups, a password from somebody else, or access again. Triggers set it."""
    governed_at = models.DateTimeField(null=True)
    """When the person last saved the rules, or gave somebody a role, groups, a password or access."""

    class Meta:
        db_table = "membership"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_one_role"),
            models.CheckConstraint(
                condition=Q(role__in=["viewer", "operator", "approver", "auditor", "admin"]),
                name="membership_role_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role}"


class NewsRead(models.Model):
    """How far a person has read their news: all events of transactions below the position `below`, except those in
    `still_open`. Deleted with their membership."""

    membership = models.OneToOneField(Membership, models.CASCADE, primary_key=True, related_name="+")
    below = models.BigIntegerField()
    still_open = ArrayField(models.BigIntegerField(), db_default=[])
    """The positions of transactions below `below` that had not ended when the person read: their events count as
    unread."""

    class Meta:
        db_table = "news_read"

    def __str__(self) -> str:
        return f"{self.membership_id} has read up to {self.below}"


class Absence(models.Model):
    """Until when a person is away, and who decides for them. Deleted with their membership, or when they are back."""

    membership = models.OneToOneField(Membership, models.CASCADE, primary_key=True, related_name="+")
    until = models.DateTimeField()
    deputy = models.ForeignKey(Membership, models.SET_NULL, null=True, related_name="+")
    """The deputy, who is of the same tenant; null for none."""
    named_at = models.DateTimeField(db_default=models.Func(function="clock_timestamp"))
    """When this deputy was named for this absence. A trigger sets it."""

    class Meta:
        db_table = "absence"
        constraints = [
            models.CheckConstraint(
                condition=Q(deputy__isnull=True) | ~Q(deputy=models.F("membership")), name="absence_deputy_is_another"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.membership_id} is away"


class SignIn(AbstractBaseSession):
    """A browser's Django session. Its key is the SHA-256 of the cookie's value. `user` is the person who signed in, or
    who has typed the password and still has to type a code. Triggers delete the row when this person loses access."""

    session_key = models.CharField(max_length=64, primary_key=True, db_column="digest")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True)

    class Meta:
        db_table = "sign_in"
        constraints = [
            models.CheckConstraint(condition=Q(session_key__regex=r"^[0-9a-f]{64}$"), name="sign_in_hashed"),
        ]

    def __str__(self) -> str:
        return f"session of {self.user_id}"

    @classmethod
    def alive(cls, digest: str) -> models.QuerySet[SignIn]:
        """The session with this key as a queryset, empty if there is none or it has expired."""
        return cls.objects.filter(session_key=digest, expire_date__gt=timezone.now())


class CodeUse(models.Model):
    """What is known of the codes that a person has typed for their second factor. The factor itself is in a table of
    `allauth.mfa`."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True)
    step = models.BigIntegerField(db_default=0)
    """The newest step of 30 seconds, counted from 1970, whose code was used. It never goes back."""
    tries = models.IntegerField(db_default=0)
    """How many wrong codes were typed since `tries_since`."""
    tries_since = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "code_use"

    def __str__(self) -> str:
        return f"codes of {self.user_id}"


class AuthContext(models.Model):
    """A client: (issuer, subject, client_id) in a tenant. Its tasks belong to it."""

    tenant = models.ForeignKey(Tenant, models.CASCADE)
    issuer = models.CharField(max_length=255, db_default="")
    subject = models.CharField(max_length=255)
    client_id = models.CharField(max_length=255, db_default="")
    name = models.CharField(max_length=128)
    client_info = models.JSONField(default=dict, db_default={})
    client_capabilities = models.JSONField(default=dict, db_default={})
    last_seen_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    disabled_at = models.DateTimeField(null=True)
    patience_ms = models.IntegerField(null=True)
    hub_tools = models.BooleanField(null=True)

    class Meta:
        db_table = "auth_context"
        constraints = [
            models.CheckConstraint(
                condition=Q(patience_ms__isnull=True) | Q(patience_ms__range=PATIENCE_RANGE_MS),
                name="auth_context_patience_range",
            ),
            models.UniqueConstraint(
                fields=["tenant", "issuer", "subject", "client_id"], name="auth_context_one_principal"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class LearnedPatience(models.Model):
    """How long a client's program waits for the result of a call, learned from calls that the program left."""

    context = models.ForeignKey(AuthContext, models.CASCADE, related_name="+", db_index=False)
    program = models.CharField(max_length=128)
    patience_ms = models.IntegerField()
    left_after_ms = models.BigIntegerField()
    leaves = models.IntegerField()
    learned_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "learned_patience"
        constraints = [
            models.UniqueConstraint(fields=["context", "program"], name="learned_patience_unique"),
            models.CheckConstraint(condition=Q(patience_ms__range=PATIENCE_RANGE_MS), name="learned_patience_range"),
        ]

    def __str__(self) -> str:
        return f"{self.program}: {self.patience_ms} ms"


class AccessToken(models.Model):
    """A bearer token of a client. Only its SHA-256 is stored; the token itself is shown once."""

    context = models.ForeignKey(AuthContext, models.CASCADE, related_name="tokens")
    digest = models.BinaryField(max_length=32)
    prefix = models.CharField(max_length=16)
    scopes = ArrayField(models.CharField(max_length=64), default=list)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_address = models.CharField(max_length=64, db_default="")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "access_token"
        constraints = [
            models.UniqueConstraint(fields=["digest"], name="access_token_digest_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}…"
