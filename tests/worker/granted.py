"""What tests of OAuth towards servers share: a guarded server behind a worker, and people who authorize it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from taskhub.core.records import Actor, TaskRecord
from taskhub.core.states import Door, State
from taskhub.domain.credentials import flow, writes
from taskhub.domain.credentials.records import Holder, OAuthSettings, Way
from taskhub.store.models import AuthContext, Question, Server
from tests.support.guarded import Guarded
from tests.worker.kit import Hall, in_state, wait_until

BASE = "http://hub.example"


def protected(hall: Hall, guarded: Guarded, way: Way, admin: Actor, **more: Any) -> Server:
    server = hall.server(guarded.target)
    wanted = OAuthSettings(way, **more)
    writes.set_oauth(tenant_id=server.tenant_id, server_id=server.pk, wanted=wanted, actor=admin)
    return server


FOR_ALL = Holder()


def authorize(
    server: Server,
    guarded: Guarded,
    account: str,
    by: Actor,
    holder: Holder = FOR_ALL,
    scopes: str = "",
) -> int:
    """What a person does in their browser; returns how many calls went on."""
    assert by.user_id is not None
    sending = flow.begin(
        tenant_id=server.tenant_id,
        server_id=server.pk,
        holder=holder,
        by=by.user_id,
        session_key="a" * 64,
        base=BASE,
        back="/",
        scopes=scopes,
    )
    guarded.account = account
    came = flow.finish(
        tenant_id=server.tenant_id,
        session_key="a" * 64,
        by=by.user_id,
        for_all=True,
        answer=guarded.answer(sending.leads_to.href),
        actor=by,
    )
    return came.calls


def person(hall: Hall, name: str) -> tuple[Actor, AuthContext]:
    """A person, and a program that acts for them."""
    user = User.objects.create_user(name)
    context = AuthContext.objects.create(
        tenant=hall.context.tenant,
        issuer="taskhub/elsewhere",
        subject=name,
        client_id=name,
        name=name,
    )
    return Actor(name=name, door=Door.WEB, user_id=user.pk), context


def result(task: TaskRecord) -> str:
    assert task.state is State.FINISHED, task
    return str(task.result_json)


def asked(task_id: int) -> Question:
    in_state(task_id, State.INPUT_REQUIRED)
    return Question.objects.get(task_id=task_id, state="open", kind="authorization")


def listed(server: Server) -> None:
    wait_until(lambda: Server.objects.get(pk=server.pk).state == "ready", "the server's lists")
