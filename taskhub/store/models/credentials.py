"""OAuth towards servers: how each is authorized, the grants with their tokens, and authorizations under way."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from taskhub.store.models.people import AuthContext
from taskhub.store.models.servers import Server

_FOR_ONE = Q(user__isnull=True) | Q(context__isnull=True)


class ServerOAuth(models.Model):
    """How the hub is authorized at a server (`domain.credentials`). Secrets are encrypted."""

    server = models.OneToOneField(Server, models.CASCADE, related_name="oauth")
    way = models.CharField(max_length=8)
    issuer = models.TextField(db_default="", blank=True)
    """The issuer that an admin named; empty to use the one that the server names."""
    client_id = models.TextField(db_default="", blank=True)
    client_secret = models.BinaryField(null=True)
    scopes = models.TextField(db_default="", blank=True)
    """The scopes that an admin named; empty to use those that the server asks for."""
    lacking = models.TextField(db_default="", blank=True)
    """The scopes that the server wanted when it last refused a list, or the connection to read its lists; empty if
    none."""
    found = models.JSONField(default=dict, db_default={})
    """The known facts about the authorization server (`records.Found`)."""
    registered = models.JSONField(default=dict, db_default={})
    """The client that the hub registered by itself at the authorization server, for the next authorizations; empty if
    there is none."""

    class Meta:
        db_table = "server_oauth"
        constraints = [
            models.CheckConstraint(condition=Q(way__in=["client", "shared", "each"]), name="server_oauth_way_known"),
            models.CheckConstraint(
                condition=~Q(way="client") | (~Q(client_id="") & Q(client_secret__isnull=False)),
                name="server_oauth_client_has_credentials",
            ),
            models.CheckConstraint(
                condition=Q(client_secret__isnull=True) | ~Q(client_id=""), name="server_oauth_secret_of_a_client"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.way} at {self.server_id}"


class ServerGrant(models.Model):
    """The tokens that an authorization server issued for a server: for a person, for a client, or, if both are null,
    for everyone. A new authorization makes a new row, so that connections under the old one are not used any more."""

    server = models.ForeignKey(Server, models.CASCADE, related_name="grants", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True)
    context = models.ForeignKey(AuthContext, models.CASCADE, null=True)
    state = models.CharField(max_length=8, db_default="good")
    problem = models.TextField(db_default="", blank=True)
    """Why the server has to be authorized again, as text for people; empty while the grant is good."""
    issuer = models.TextField(db_default="", blank=True)
    client_id = models.TextField(db_default="", blank=True)
    registered = models.JSONField(default=dict, db_default={})
    """The client to which the grant was issued, if the hub had registered the client by itself. Kept as long as the
    grant."""
    scopes = models.TextField(db_default="", blank=True)
    access = models.BinaryField(null=True)
    refresh = models.BinaryField(null=True)
    expires_at = models.DateTimeField(null=True)
    version = models.IntegerField(db_default=0)
    """Grows with every change of the tokens, and when a process begins to refresh them."""
    refreshing_until = models.DateTimeField(null=True)
    """Until this time only one process may refresh the tokens; null if none does."""
    refresh_after = models.DateTimeField(null=True)
    """Before this time the authorization server does not want to be asked for new tokens; null if it named none."""
    granted_by = models.CharField(max_length=255, db_default="")
    granted_at = models.DateTimeField(db_default=Now())
    refreshed_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)
    """When a refresh was last recorded in the audit log."""

    class Meta:
        db_table = "server_grant"
        constraints = [
            models.UniqueConstraint(
                fields=["server", "user", "context"], nulls_distinct=False, name="server_grant_one_for_each"
            ),
            models.CheckConstraint(condition=_FOR_ONE, name="server_grant_for_one"),
            models.CheckConstraint(condition=Q(state__in=["good", "lapsed"]), name="server_grant_state_known"),
            models.CheckConstraint(
                condition=Q(state="good", problem="")
                | Q(state="lapsed", access__isnull=True, refresh__isnull=True, refreshing_until__isnull=True)
                & ~Q(problem=""),
                name="server_grant_lapsed_keeps_no_token",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} for {self.server_id}"


class GrantRequest(models.Model):
    """An authorization under way: a person was sent to the authorization server. Redeemed once, in the same browser
    session, within minutes."""

    state_digest = models.CharField(max_length=64, unique=True)
    session_key = models.CharField(max_length=64)
    """The key of the browser session's row."""
    server = models.ForeignKey(Server, models.CASCADE, related_name="+")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    context = models.ForeignKey(AuthContext, models.CASCADE, null=True, related_name="+")
    verifier = models.BinaryField()
    """The PKCE verifier, encrypted."""
    issuer = models.TextField()
    client_id = models.TextField()
    registered = models.JSONField(default=dict, db_default={})
    """The client of this authorization, if the hub had registered it by itself; else empty."""
    redirect_uri = models.TextField()
    scopes = models.TextField(db_default="", blank=True)
    back = models.CharField(max_length=200, db_default="", blank=True)
    """The path to which the person returns."""
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "grant_request"
        constraints = [
            models.CheckConstraint(condition=_FOR_ONE, name="grant_request_for_one"),
        ]

    def __str__(self) -> str:
        return f"by {self.by_id} for {self.server_id}"
