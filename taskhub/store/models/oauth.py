"""What the authorization server remembers besides the toolkit's own tables: which programs a tenant
knows, and what its people allowed them."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Application(models.Model):
    """A program as a tenant knows it. The toolkit's row says how it signs people in; one that is
    known by its metadata document, or registered itself, is shared by the tenants that met it."""

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
    """What a person allows an application to do for them. Without it no token of theirs is good."""

    application = models.ForeignKey(Application, models.CASCADE, related_name="consents")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    scopes = ArrayField(models.CharField(max_length=64))
    targets = ArrayField(models.CharField(max_length=300), default=list)
    """Hosts it has led this person back to. At another one the person is asked anew: a program that is
    known by its document may change where it leads to whenever it likes."""
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
    """One time a program signed a person in: the code it brought, and what it may carry. All its tokens,
    however often refreshed, are of one family in the toolkit's tables."""

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
