"""Tables of the authorization server beside those of django-oauth-toolkit: the programs that a tenant
knows, and what its people allow them."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Application(models.Model):
    """A program that a tenant knows. `registration` is django-oauth-toolkit's row, which says how the program signs
    people in. Tenants share that row if the program is known by its metadata document, or registered itself."""

    tenant = models.ForeignKey("store.Tenant", models.CASCADE)
    registration = models.ForeignKey("oauth2_provider.Application", models.CASCADE, related_name="known_as")
    created_at = models.DateTimeField(db_default=Now())
    blocked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "application"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "registration"], name="application_once_per_tenant"),
        ]

    def __str__(self) -> str:
        return f"application {self.pk}"


class Consent(models.Model):
    """The scopes that a person allows an application. Without this row, no token of the person for it is valid."""

    application = models.ForeignKey(Application, models.CASCADE, related_name="consents")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    scopes = ArrayField(models.CharField(max_length=64))
    targets = ArrayField(models.CharField(max_length=300), default=list)
    """The hosts to which the application has redirected this person. Before it redirects to another host, the person is
    asked again, because a program that is known by its metadata document can change its redirect URIs at any time."""
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "consent"
        constraints = [
            models.UniqueConstraint(fields=["application", "user"], name="consent_one_answer"),
            models.CheckConstraint(condition=Q(scopes__len__gt=0), name="consent_to_something"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} to application {self.application_id}"


class TokenFamily(models.Model):
    """One sign-in of a person in a program. `code_checksum` is that of the authorization code that began it, and
    `scopes` is what it allows. Every token of the sign-in, also after refreshes, has the value of `family` as
    `token_family` in django-oauth-toolkit's tables."""

    family = models.UUIDField(unique=True)
    registration = models.ForeignKey("oauth2_provider.Application", models.CASCADE, related_name="families")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    code_checksum = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=64))
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "token_family"
        constraints = [
            models.CheckConstraint(condition=Q(code_checksum__regex=r"^[0-9a-f]{64}$"), name="token_family_hashed"),
            models.CheckConstraint(condition=Q(scopes__len__gt=0), name="token_family_of_something"),
        ]

    def __str__(self) -> str:
        return f"family {self.family}"
