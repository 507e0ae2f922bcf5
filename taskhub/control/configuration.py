"""Use cases for the configuration of a tenant as one file: export it, and apply a file.

A file is applied by the use cases of rules, servers, people and clients, in one transaction: all of it, or nothing. So
a file meets the same checks and refusals as pages, and causes the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from taskhub.control import clients, credentials, people, rules, servers
from taskhub.control.caller import Caller
from taskhub.core.errors import Forbidden, Invalid, TaskHubError, Unavailable
from taskhub.core.policy import Policy
from taskhub.core.rules import MAX_REASON, Rule
from taskhub.core.secrets import without_values
from taskhub.core.states import Role
from taskhub.domain.catalogue.edits import ServerEdit
from taskhub.domain.clients.contexts import client_id_of
from taskhub.domain.configuration import reads
from taskhub.domain.configuration.differences import client_name, differences
from taskhub.domain.configuration.document import Document, Item, read_document, refuse_rule, write_document, wrong
from taskhub.domain.configuration.records import (
    ClientConfig,
    Configuration,
    Given,
    OAuthConfig,
    PersonConfig,
    ServerConfig,
)
from taskhub.domain.configuration.references import Lookup, References, same_spec
from taskhub.domain.credentials.records import OAuthSettings, Way
from taskhub.domain.credentials.writes import Dropped
from taskhub.domain.rules.blocks import in_force, without

_MAY_SEE = ("server.view", "client.view", "settings.view")
_MAY_CHANGE = ("server.manage", "client.manage", "settings.view")


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of applying a file, as texts for people, without secrets."""

    changes: tuple[str, ...]
    """The changes, made or (in a dry run) not: a line for each rule, server, tool, person and client."""
    unlisted: tuple[str, ...]
    """Records of the hub that the file does not list, and that were left as they are."""
    kept: tuple[str, ...]
    """Secrets of the hub that were kept, because the file's references to them could not be resolved."""
    newcomers: tuple[str, ...]
    """The people who were added: they have no passwords yet."""
    dropped: tuple[Dropped, ...]
    """Grants that were dropped, for `credentials.end_dropped`."""
    warnings: tuple[str, ...] = ()
    """Warnings about the rules after the file was applied."""


def export_configuration(caller: Caller) -> str:
    """The tenant's configuration as the text of a file, without secrets. Raises `Forbidden`."""
    for permission in _MAY_SEE:
        caller.require(permission, what="export the configuration")
    references = References()
    found = reads.present(caller.tenant_id, references)
    return write_document(found, references, tenant=reads.tenant_slug(caller.tenant_id))


def apply_configuration(
    caller: Caller,
    text: str,
    *,
    lookup: Lookup,
    prune: bool = False,
    keep_secrets: bool = False,
    dry_run: bool = False,
    reason: str = "",
) -> Applied:
    """Make the tenant's configuration what the file says, all of it or nothing. `lookup` resolves the file's
    references; with `keep_secrets`, a reference that cannot be resolved stands for the secret that the hub has.

    Parts that the file leaves out stay as they are. Records that a part does not list stay too, unless `prune` is set,
    which removes them (a client is locked, a tool gets the policy of a new tool). For rules, `prune` is required if one
    is not listed, because its place among the others would be a guess. `dry_run`: apply everything, and roll back.

    Raises `Forbidden`, or `Invalid` with the `line` of the file.
    """
    for permission in _MAY_CHANGE:
        caller.require(permission, what="apply a configuration")
    if len(reason) > MAX_REASON or not reason.isprintable():
        raise Invalid(f"A reason has at most {MAX_REASON} printable characters.", field="reason")
    document = read_document(text, lookup)
    caller = replace(caller, actor=caller.because(reason) if reason else caller.actor, for_file=True)
    with transaction.atomic():
        reads.lock(caller.tenant_id)
        before = reads.present(caller.tenant_id)
        applying = _Applying(caller, before, prune=prune, keep_secrets=keep_secrets)
        applying.apply(document, reason)
        after = reads.present(caller.tenant_id)
        changes = differences(before, after)
        # Read before the rollback, because the file's people count as approvers.
        asked = rules.approver_warnings(caller, after.rules)
        if dry_run:
            transaction.set_rollback(True)
    # Outside of the transaction, because this fills the catalogue's cache, which must not have changes that are rolled
    # back.
    warned: list[rules.Warned] = [*rules.tool_warnings(caller, after.rules), *asked]
    return Applied(
        changes,
        tuple(applying.unlisted),
        tuple(applying.kept),
        tuple(applying.newcomers),
        () if dry_run else tuple(applying.dropped),
        tuple(f"rule {one.rule.name}: {one.words}" for one in warned),
    )


def _of_file(error: Invalid, written: Sequence[Rule], kept: Sequence[Rule]) -> Invalid:
    """The error about a list of rules, whose first rules are `kept` (blocks, which are in no file). Its index of a rule
    becomes the index in `written`, the rules of the file. An error about anything else is returned unchanged."""
    head, *path = str(error.data.get("field", "")).split(".")
    if not kept or not path or not path[0].isdigit() or int(path[0]) < len(kept):
        return error
    places = [place for place, rule in enumerate(written) if rule in without(written)]
    place = places[int(path[0]) - len(kept)]
    return Invalid(error.message, field=".".join((head, str(place), *path[1:])))


class _Applying:
    """Applies one file, in the caller's transaction."""

    def __init__(self, caller: Caller, before: Configuration, *, prune: bool, keep_secrets: bool) -> None:
        self._caller, self._before = caller, before
        self._prune, self._keep = prune, keep_secrets
        self.unlisted: list[str] = []
        self.kept: list[str] = []
        self.newcomers: list[str] = []
        self.dropped: list[Dropped] = []

    def apply(self, document: Document, reason: str) -> None:
        """Apply all parts. People come before rules, because rules name their groups."""
        if document.people is not None:
            self._people(document.people)
        if document.servers is not None:
            self._servers(document.servers)
        if document.clients is not None:
            self._clients(document.clients)
        if document.rules is not None:
            self._rules(document, reason)

    # Rules

    def _rules(self, document: Document, reason: str) -> None:
        assert document.rules is not None
        # Blocks end by themselves: a file neither ends one that is in force nor brings one back.
        wanted, node = without(document.rules.record), document.rules.node
        listed_now = rules.rules(self._caller)
        kept = in_force(listed_now.rules, datetime.now(UTC))
        try:
            rules.save_rules(self._caller, (*kept, *wanted), expected=listed_now.version, reason=reason)
        except Invalid as error:
            refuse_rule(node, _of_file(error, document.rules.record, kept))
        listed = {rule.name for rule in wanted}
        missing = [rule.name for rule in self._before.rules if rule.name not in listed]
        if missing and not self._prune:
            wrong(
                node.line,
                f"The hub has rules that are not listed here: {_some(missing)}. Their place among these would be a"
                " guess: list them too, or remove them with --prune.",
            )

    # Servers

    def _servers(self, part: Item[tuple[Item[ServerConfig], ...]]) -> None:
        present = {server.name: server for server in self._before.servers}
        for name in self._rest("server", present, {item.record.name for item in part.record}):
            with _at(part, f"server {name}"):
                servers.remove_server(self._caller, servers.find_server(self._caller, name).id)
        for item in part.record:
            with _at(item, f"server {item.record.name}", _secrets(item.record)):
                self._server(item, present.get(item.record.name))
                self._tools(item, present.get(item.record.name))

    def _server(self, item: Item[ServerConfig], present: ServerConfig | None) -> None:
        wanted = item.record
        if present is None:
            self._new_server(item)
            return
        known = all(given.value is not None for _, given in _givens(wanted))
        if known and replace(wanted, tools={}) == replace(present, tools={}):
            return
        pk = servers.find_server(self._caller, wanted.name).id
        if not same_spec(present.spec, wanted.spec):
            spec = self._value(item, "spec", wanted.spec, None)
            servers.edit_server(self._caller, pk, ServerEdit(spec=spec))
            present = self._again(wanted.name)  # now without the headers and variables of the old address or command
        elif wanted.spec.value is None:
            self._value(item, "spec", wanted.spec, present.spec)
        if wanted.oauth is None and present.oauth is not None:
            self.dropped.append(credentials.set_oauth(self._caller, pk, None))
        servers.edit_server(self._caller, pk, self._edit(item, present))
        self._rest_of_server(item, pk, self._again(wanted.name))

    def _new_server(self, item: Item[ServerConfig]) -> None:
        wanted = item.record
        for field, given in _givens(wanted):
            self._value(item, field, given, None)
        servers.add_server(
            self._caller,
            name=wanted.name,
            spec=str(wanted.spec.value),
            prefix=wanted.prefix,
            token=wanted.token.value or "" if wanted.token else "",
            headers={name: given.value for name, given in wanted.headers.items()},
            environment={name: given.value for name, given in wanted.environment.items()},
            directory=wanted.directory,
            own_process=wanted.own_process,
            connect_seconds=wanted.connect_seconds,
            calls_at_once=wanted.calls_at_once,
            review=wanted.review,
            pinned=wanted.pinned,
        )
        made = servers.find_server(self._caller, wanted.name).id
        self._rest_of_server(item, made, self._again(wanted.name))

    def _edit(self, item: Item[ServerConfig], present: ServerConfig) -> ServerEdit:
        """The changes to the server, except those of its spec and of its OAuth settings."""
        wanted = item.record
        edit: dict[str, Any] = {}
        for name in ("prefix", "directory", "pinned", "shared", "own_process", "review", "by_file"):
            if getattr(wanted, name) != getattr(present, name):
                edit[name] = getattr(wanted, name)
        for name in ("connect_seconds", "calls_at_once"):
            if getattr(wanted, name) != getattr(present, name):
                if getattr(wanted, name) == 0:  # which is the default in an edit
                    wrong(item.line(name), f"{name}: Give a number from 1 on, or leave it out for the default.")
                edit[name] = getattr(wanted, name) or 0
        token = None if wanted.token is None else self._value(item, "token", wanted.token, present.token)
        for name in ("headers", "environment"):
            pairs: Mapping[str, Given] = getattr(wanted, name)
            there: Mapping[str, Given] = getattr(present, name)
            values = {key: self._value(item, f"{name}.{key}", given, there.get(key)) for key, given in pairs.items()}
            if any(value is not None for value in values.values()) or {*pairs} != {*there}:
                edit[name] = values
        if wanted.token is None and present.token is not None:
            edit["token"] = ""
        elif token is not None:
            edit["token"] = token
        return ServerEdit(**edit)

    def _rest_of_server(self, item: Item[ServerConfig], pk: int, present: ServerConfig) -> None:
        wanted = item.record
        if wanted.oauth is not None:
            self._oauth(item, pk, wanted.oauth, present.oauth)
        if (wanted.shared, wanted.by_file) != (present.shared, present.by_file):
            servers.edit_server(self._caller, pk, ServerEdit(shared=wanted.shared, by_file=wanted.by_file))
        if wanted.enabled != present.enabled:
            servers.set_server_enabled(self._caller, pk, enabled=wanted.enabled)

    def _oauth(self, item: Item[ServerConfig], pk: int, wanted: OAuthConfig, present: OAuthConfig | None) -> None:
        if wanted.way not in set(Way):
            wrong(item.line("oauth.way"), f"oauth: The way is one of {', '.join(Way)}.")
        there = None if present is None or present.client_id != wanted.client_id else present.secret
        secret = "" if wanted.secret is None else self._value(item, "oauth.secret", wanted.secret, there)
        if wanted == present:
            return
        settings = OAuthSettings(Way(wanted.way), wanted.issuer, wanted.client_id, secret, wanted.scopes)
        self.dropped.append(credentials.set_oauth(self._caller, pk, settings))

    def _tools(self, item: Item[ServerConfig], present: ServerConfig | None) -> None:
        server, wanted = item.record.name, item.record.tools
        there = {} if present is None else present.tools
        if not item.says("tools") or wanted == there:
            return
        pk = servers.find_server(self._caller, server).id
        names = {f"{server}/{name}": name for name in there}
        for key in self._rest("tool", names, {f"{server}/{name}" for name in wanted}):
            servers.set_policy_by_name(self._caller, pk, names[key], Policy())
        for name, policy in wanted.items():
            try:
                servers.set_policy_by_name(self._caller, pk, name, policy)
            except Invalid as error:
                field = str(error.data.get("field", ""))
                wrong(
                    item.line(f"tools.{name}" if field == "name" else f"tools.{name}.{field}"),
                    f"server {server}: tool {name}: {error.message}",
                )

    def _again(self, name: str) -> ServerConfig:
        return reads.present_server(self._caller.tenant_id, name)

    def _value(self, item: Item[Any], field: str, given: Given, present: Given | None) -> str | None:
        """The value to store; `None` to keep the stored one. Raises `Invalid` if there is neither."""
        if given.value is not None:
            return None if present is not None and present == given else given.value
        if present is None or not self._keep:
            more = "" if present is None else " To leave the secret that the hub has as it is: --keep-secrets."
            wrong(item.line(field), f"{field}: {given.missing}{more}")
        self.kept.append(f"server {item.record.name}: {field}")
        return None

    # People

    def _people(self, part: Item[tuple[Item[PersonConfig], ...]]) -> None:
        present = {person.username.lower(): person for person in self._before.people}
        # Admins first, because a tenant must never be without one.
        for item in sorted(part.record, key=lambda item: not (item.record.role == Role.ADMIN and item.record.enabled)):
            with _at(item, f"person {item.record.username}"):
                self._person(item.record, present.get(item.record.username.lower()))
        for key in self._rest("person", present, {item.record.username.lower() for item in part.record}):
            with _at(part, f"person {key}"):
                people.remove_person(self._caller, people.find_person(self._caller, key))

    def _person(self, wanted: PersonConfig, present: PersonConfig | None) -> None:
        if present is None:
            people.add_person(
                self._caller, username=wanted.username, role=wanted.role, groups=wanted.groups, with_password=False
            )
            self.newcomers.append(wanted.username)
        elif (present.role, present.groups, present.enabled) == (wanted.role, wanted.groups, wanted.enabled):
            return
        user_id = people.find_person(self._caller, wanted.username)
        if present is None or wanted.enabled != present.enabled:
            (people.enable_person if wanted.enabled else people.disable_person)(self._caller, user_id)
        if present is not None:
            people.set_role(self._caller, user_id, wanted.role, wanted.groups)

    # Clients

    def _clients(self, part: Item[tuple[Item[ClientConfig], ...]]) -> None:
        present = {client.key: client for client in self._before.clients}
        for item in part.record:
            with _at(item, f"client {item.record.name}"):
                self._client(item.record, present.get(item.record.key))
        listed = {item.record.key for item in part.record}
        others = {client_name(client): client for client in present.values() if client.own and not client.locked}
        for name in self._rest("client", others, {name for name, client in others.items() if client.key in listed}):
            with _at(part, f"client {name}"):
                self._client(replace(others[name], locked=True), others[name])

    def _client(self, wanted: ClientConfig, present: ClientConfig | None) -> None:
        issuer, subject, client_id = wanted.key
        if wanted.own and (wanted.subject or wanted.client_id):
            raise Invalid("A client whose tokens are issued here has no subject and no client_id.", field="subject")
        pk = client_id_of(self._caller.tenant_id, wanted.key)
        if pk is None:
            pk = clients.add_client(self._caller, name=wanted.name, issuer=issuer, subject=subject, client_id=client_id)
        found = clients.find_client(self._caller, pk)
        there = present or replace(wanted, locked=False, patience_seconds=None, hub_tools=None)
        if wanted.locked != there.locked:
            (clients.lock_client if wanted.locked else clients.unlock_client)(self._caller, found)
        if (wanted.patience_seconds, wanted.hub_tools) != (there.patience_seconds, there.hub_tools):
            clients.set_caller_settings(
                self._caller, found, patience_seconds=wanted.patience_seconds, hub_tools=wanted.hub_tools
            )

    def _rest(self, what: str, present: Mapping[str, Any], listed: Set[str]) -> list[str]:
        """The names that are present but not listed. Without `prune` they are noted in `unlisted`, and none is
        returned."""
        rest = [name for name in present if name not in listed]
        if self._prune:
            return rest
        self.unlisted += [f"{what} {name}" for name in rest]
        return []


@contextmanager
def _at(item: Item[Any], what: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Add the line of the file to an error that the block raises, and remove every secret from its message."""
    try:
        yield
    except (Forbidden, Unavailable):
        raise
    except TaskHubError as error:
        if "line" in error.data:
            raise
        field = str(error.data.get("field", ""))
        named = f"{field}: " if item.says(field) else ""
        wrong(item.line(field), f"{what}: {named}{without_values(error.message, secrets)}")


def _givens(server: ServerConfig) -> Iterator[tuple[str, Given]]:
    """The values of a server that may be secrets, each with the path of its field."""
    yield "spec", server.spec
    if server.token is not None:
        yield "token", server.token
    yield from ((f"headers.{name}", given) for name, given in server.headers.items())
    yield from ((f"environment.{name}", given) for name, given in server.environment.items())
    if server.oauth is not None and server.oauth.secret is not None:
        yield "oauth.secret", server.oauth.secret


def _secrets(server: ServerConfig) -> list[str]:
    """The values that no message may repeat."""
    return [given.value for field, given in _givens(server) if given.value and field != "spec"]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
