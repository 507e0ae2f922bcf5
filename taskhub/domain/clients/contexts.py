"""Makes auth contexts of clients before the clients' first call, and finds them."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from taskhub.core.errors import Invalid, Refused
from taskhub.core.names import PERSON_ISSUERS
from taskhub.core.records import Actor
from taskhub.domain.audit.record import record_event
from taskhub.domain.clients.reads import OWN_ISSUER
from taskhub.store.models import AuthContext

MAX_NAME = 128
MAX_IDENTITY = 255
"""The most characters of an issuer, a subject or a client id."""


def client_context(tenant_id: int, name: str) -> int:
    """The id of the auth context of the client `name`, whose tokens TaskHub issues; created on first use."""
    context, _ = AuthContext.objects.get_or_create(
        tenant_id=tenant_id, issuer=OWN_ISSUER, subject=name, client_id=name, defaults={"name": name}
    )
    return context.pk


def add_client(*, tenant_id: int, name: str, issuer: str, subject: str, client_id: str, actor: Actor) -> int:
    """Add a client without a token; returns its id. If the hub issues the client's tokens, subject and client id have
    to be its name. Raises `Invalid`, which names the field, or `Refused` if there is a client with this issuer, subject
    and client id."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise Invalid(f"A client needs a name of 1 to {MAX_NAME} printable characters.", field="name")
    if issuer in PERSON_ISSUERS:
        raise Invalid("A client that stands for a person is made when the person signs in.", field="issuer")
    for field, text in (("issuer", issuer), ("subject", subject), ("client_id", client_id)):
        if len(text) > MAX_IDENTITY or not text.isprintable():
            raise Invalid(f"At most {MAX_IDENTITY} printable characters.", field=field)
    if issuer == OWN_ISSUER and not subject == client_id == name:
        raise Invalid("The subject of a client whose tokens are issued here is its name.", field="subject")
    if issuer and not subject:
        raise Invalid("A client of another issuer has the subject that its tokens name.", field="subject")
    with transaction.atomic():
        context, made = AuthContext.objects.get_or_create(
            tenant_id=tenant_id, issuer=issuer, subject=subject, client_id=client_id, defaults={"name": name}
        )
        if not made:
            raise Refused(f"There is a client named {context.name} already.", field="name")
        record_event(
            "client.added",
            tenant_id=tenant_id,
            target=name,
            actor=replace(actor, context_id=context.pk),  # the event belongs to the client, whoever the actor is
            after={"issuer": issuer, "subject": subject, "client_id": client_id},
        )
    return context.pk


def client_id_of(tenant_id: int, key: tuple[str, str, str]) -> int | None:
    """The id of the auth context with this issuer, subject and client id; `None` if there is none."""
    issuer, subject, client_id = key
    rows = AuthContext.objects.filter(tenant_id=tenant_id, issuer=issuer, subject=subject, client_id=client_id)
    return rows.values_list("pk", flat=True).first()
