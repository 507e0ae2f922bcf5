"""The MCP servers behind the hub, and their tools."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from taskhub.core.transports import MOST_AT_ONCE, MOST_CONNECT_SECONDS
from taskhub.core.versions import Era
from taskhub.store.fields import JsonText
from taskhub.store.models.people import Tenant


class Server(models.Model):
    """An upstream MCP server: in-process, a command, or a URL.

    The row of a removed server is kept, without its secrets, because tasks refer to the server's tools. It never
    changes again (the trigger `server_guard`).
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE)
    name = models.CharField(max_length=64)
    transport = models.CharField(max_length=8)
    target = models.TextField()
    """The address or command without secrets, for display. If it has secrets, `sealed_target` is the complete one,
    encrypted."""
    sealed_target = models.BinaryField(null=True)
    credentials = models.BinaryField(null=True)
    headers = models.JSONField(default=dict, db_default={})
    """Headers for every request to an HTTP server: encrypted values, by name."""
    environment = models.JSONField(default=dict, db_default={})
    """Variables of a command: encrypted values, by name."""
    directory = models.TextField(db_default="", blank=True)
    """The working directory of a command; empty for the worker's own."""
    own_process = models.BooleanField(db_default=False)
    """Whether a `python:` server runs in a process of its own, with the variables and directory that a command can
    have."""
    connect_seconds = models.IntegerField(null=True)
    prefix = models.CharField(max_length=64, db_default="", blank=True)
    review = models.BooleanField(db_default=False)
    """Whether new and changed tools of the server wait for a person before they are offered."""
    by_file = models.BooleanField(db_default=False)
    """Whether only a file of configuration changes the server and the policies of its tools."""
    calls_at_once = models.IntegerField(null=True)
    shared = models.BooleanField(db_default=False)
    """Whether clients share the server's processes or sessions, which otherwise belong to one client each."""
    enabled = models.BooleanField(db_default=True)
    disabled_reason = models.CharField(max_length=200, db_default="", blank=True)
    state = models.CharField(max_length=16, db_default="unknown")
    problem = models.TextField(db_default="", blank=True)
    protocol = models.CharField(max_length=32, db_default="", blank=True)
    pinned = models.CharField(max_length=10, db_default="", blank=True)
    """The version of the protocol to speak with the server; empty for the newest that it speaks."""
    era = models.CharField(max_length=9, db_default="", blank=True)
    """The `core.versions.Era` in which the server answered last; empty if that is to be found out."""
    info = models.JSONField(default=dict, db_default={})
    capabilities = models.JSONField(default=dict, db_default={})
    incomplete = models.TextField(db_default="", blank=True)
    catalogue_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    failures = models.IntegerField(db_default=0)
    open_since = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    probe_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "server"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(removed_at__isnull=True), name="server_name_unique"
            ),
            models.CheckConstraint(
                condition=Q(transport__in=["python", "stdio", "http"]), name="server_transport_known"
            ),
            models.CheckConstraint(
                condition=Q(pinned__regex=r"^([0-9]{4}-[0-9]{2}-[0-9]{2}|caller)?$"), name="server_pinned_version"
            ),
            models.CheckConstraint(condition=Q(era__in=["", *map(str, Era)]), name="server_era_known"),
            models.CheckConstraint(
                condition=Q(state__in=["unknown", "ready", "unreachable", "unauthorized", "disabled"]),
                name="server_state_known",
            ),
            models.CheckConstraint(
                condition=Q(calls_at_once__isnull=True) | Q(calls_at_once__range=(1, MOST_AT_ONCE)),
                name="server_calls_at_once_range",
            ),
            models.CheckConstraint(
                condition=Q(headers={}) | ~Q(transport__in=["python", "stdio"]), name="server_headers_for_addresses"
            ),
            models.CheckConstraint(
                condition=Q(environment={}, directory="") | Q(transport="stdio") | Q(own_process=True),
                name="server_environment_for_commands",
            ),
            models.CheckConstraint(
                condition=Q(own_process=False) | Q(transport="python"), name="server_own_process_for_python"
            ),
            models.CheckConstraint(
                condition=Q(connect_seconds__isnull=True) | Q(connect_seconds__range=(1, MOST_CONNECT_SECONDS)),
                name="server_connect_seconds_range",
            ),
            models.CheckConstraint(
                condition=Q(open_since__isnull=True, retry_at__isnull=True, probe_until__isnull=True, failures__gte=0)
                | Q(open_since__isnull=False, retry_at__isnull=False, failures__gt=0),
                name="server_breaker_whole",
            ),
            models.CheckConstraint(
                condition=Q(disabled_reason="") | Q(enabled=False), name="server_reason_while_disabled"
            ),
            models.CheckConstraint(
                condition=Q(removed_at__isnull=True)
                | Q(
                    enabled=False,
                    state="disabled",
                    sealed_target__isnull=True,
                    credentials__isnull=True,
                    headers={},
                    environment={},
                    open_since__isnull=True,
                ),
                name="server_removed_keeps_no_secret",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Tool(models.Model):
    """A tool of a server: its definition, verbatim, and the policy that an operator set for it."""

    server = models.ForeignKey(Server, models.CASCADE, related_name="tools")
    name = models.CharField(max_length=128)
    exposed_name = models.CharField(max_length=160)
    position = models.IntegerField(db_default=0)
    definition = JsonText()
    digest = models.CharField(max_length=64)
    rejected = models.TextField(db_default="", blank=True)
    hint_mode = models.CharField(max_length=8, null=True)
    read_only = models.BooleanField(db_default=False)
    idempotent = models.BooleanField(db_default=False)
    first_seen_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    gone_at = models.DateTimeField(null=True)
    confirmed_digest = models.CharField(max_length=64, db_default="", blank=True)
    """The digest of the definition that somebody confirmed last; empty if nobody has confirmed one."""
    confirmed_at = models.DateTimeField(null=True)
    confirmed_by = models.CharField(max_length=255, db_default="", blank=True)
    """Who confirmed that definition; empty if it was in the first listing of the server."""

    enabled = models.BooleanField(db_default=True)
    policy_mode = models.CharField(max_length=8, null=True)
    policy_at_least_once = models.BooleanField(null=True)
    question_audience = models.CharField(max_length=8, null=True)
    people_after_program = models.BooleanField(db_default=False)
    companion = models.JSONField(default=dict, db_default={})
    retry_on = models.JSONField(default=list, db_default=[])
    retry_seconds = models.IntegerField(db_default=1)
    max_attempts = models.IntegerField(db_default=3)
    run_seconds = models.IntegerField(db_default=900)
    join_seconds = models.IntegerField(db_default=300)

    class Meta:
        db_table = "tool"
        constraints = [
            models.UniqueConstraint(fields=["server", "name"], name="tool_name_unique"),
            models.CheckConstraint(
                condition=Q(policy_mode__isnull=True) | Q(policy_mode__in=["auto", "always", "never", "required"]),
                name="tool_mode_known",
            ),
            models.CheckConstraint(
                condition=Q(hint_mode__isnull=True) | Q(hint_mode__in=["auto", "always", "never", "required"]),
                name="tool_hint_known",
            ),
            models.CheckConstraint(condition=Q(max_attempts__range=(1, 20)), name="tool_max_attempts_range"),
            models.CheckConstraint(condition=Q(retry_seconds__range=(1, 300)), name="tool_retry_seconds_range"),
            models.CheckConstraint(condition=Q(run_seconds__range=(1, 86_400)), name="tool_run_seconds_range"),
            models.CheckConstraint(condition=Q(join_seconds__range=(0, 86_400)), name="tool_join_seconds_range"),
        ]

    def __str__(self) -> str:
        return self.exposed_name


class ToolVersion(models.Model):
    """A definition that a tool has or had. There is one row for each digest, also if a definition comes back."""

    tool = models.ForeignKey(Tool, models.CASCADE, related_name="versions")
    number = models.IntegerField()
    digest = models.CharField(max_length=64)
    definition = JsonText()
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(null=True)
    """When the server last listed this definition; null for the definition that it lists now."""

    class Meta:
        db_table = "tool_version"
        constraints = [
            models.UniqueConstraint(fields=["tool", "digest"], name="tool_version_digest_unique"),
            models.UniqueConstraint(fields=["tool", "number"], name="tool_version_number_unique"),
        ]

    def __str__(self) -> str:
        return f"version {self.number} of {self.tool_id}"


class ConnectionTest(models.Model):
    """The latest test of the connection to a server, which people request and a worker makes."""

    server = models.OneToOneField(Server, models.CASCADE, related_name="+")
    requested_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=128, db_default="", blank=True)
    steps = models.JSONField(default=list, db_default=[])

    class Meta:
        db_table = "connection_test"
        constraints = [
            models.CheckConstraint(
                condition=Q(worker="", taken_at__isnull=True, ended_at__isnull=True, steps=[])
                | (~Q(worker="") & Q(taken_at__isnull=False)),
                name="connection_test_worker_iff_taken",
            ),
        ]

    def __str__(self) -> str:
        return f"test of {self.server_id}"
