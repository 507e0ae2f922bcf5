"""Sessions and streams in the database: what is kept, what is purged, who may send."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from taskhub.core.records import Actor, QuestionKind
from taskhub.core.states import Door
from taskhub.domain.sessions import writes as sessions
from taskhub.domain.sessions.reads import live_sessions
from taskhub.domain.tasks.cancel import cancel_now
from taskhub.domain.tasks.reads import task_by_id
from taskhub.store.models import Outbound, Session, Stream, Task
from tests.factories import make_context, make_question, make_task, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def session() -> Session:
    """A session of a client of its own."""
    context = make_context(make_tenant())
    return start(context)


METHODS = ("elicitation/create",)


def start(context: Any) -> Session:
    public_id = sessions.start_session(
        tenant_id=context.tenant_id, context_id=context.pk, version="2025-11-25", client_info={}, capabilities={}
    )
    return Session.objects.get(public_id=public_id)


def asking(session: Session) -> tuple[Task, Outbound]:
    """A task of the session that waits, and the request that asks its client."""
    question = make_question(QuestionKind.ELICITATION, key="q")
    task = make_task(session.context, state="input_required", question=question, session_id=session.pk, handle=True)
    row = Task.objects.get(pk=task.id)
    request = sessions.NewRequest(row.questions.get().pk, "elicitation/create", {"message": "?"})
    sessions.put_questions(task.id, [request])
    return row, Outbound.objects.get(task=row)


def sent(place: sessions.Place, **how: Any) -> list[int] | None:
    delivery = sessions.deliver(place, **{"first": True, "methods": METHODS, **how})
    return None if delivery is None else [request.id for request in delivery.requests]


def test_the_longest_unused_session_makes_room(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    others = [start(session.context) for _ in range(2)]
    Session.objects.filter(pk=others[0].pk).update(seen_at=timezone.now() - timedelta(hours=1))
    newest = start(session.context)
    stranger = start(make_context(session.tenant))
    live = {found.pk for found in Session.objects.filter(ended_at__isnull=True)}
    assert live == {session.pk, others[1].pk, newest.pk, stranger.pk}


def test_a_session_is_found_by_its_owner_while_it_lives(session: Session) -> None:
    wanted = [(session.public_id, session.context_id), (session.public_id, session.context_id + 1), ("no", 1)]
    assert [found is not None for found in live_sessions(wanted)] == [True, False, False]
    Session.objects.filter(pk=session.pk).update(seen_at=timezone.now() - timedelta(days=8))
    assert live_sessions(wanted[:1]) == [None]


def test_what_is_over_is_purged_and_what_tasks_refer_to_is_not(session: Session) -> None:
    other = start(session.context)
    make_task(session.context, session_id=session.pk)
    served, idle = sessions.open_stream(other.pk, "listen"), sessions.open_stream(session.pk, "listen")
    Stream.objects.filter(pk=idle.id).update(seen_at=timezone.now() - timedelta(hours=25))
    assert sessions.purge_streams() == 1
    assert [stream.pk for stream in Stream.objects.all()] == [served.id]
    Session.objects.update(seen_at=timezone.now() - timedelta(days=8))
    assert sessions.purge_sessions(idle_days=7) == 1
    assert [left.pk for left in Session.objects.all()] == [session.pk]
    assert not Stream.objects.exists()


def test_a_waiting_stream_is_asked_before_the_sessions_own(session: Session) -> None:
    task, request = asking(session)
    own = sessions.open_stream(session.pk, "listen")
    waiting = sessions.open_stream(session.pk, "result", task_id=task.pk, request_id="1")
    assert sent(own) == []
    assert sent(waiting) == [request.pk]
    assert sent(waiting, first=False) == [], "once"
    sessions.leave_stream(waiting, closed=False)
    assert sent(own, first=False) == [request.pk], "that stream is gone"


def test_the_newest_attachment_alone_may_send(session: Session) -> None:
    task, request = asking(session)
    first = sessions.open_stream(session.pk, "result", task_id=task.pk, request_id="1")
    again = sessions.attach_stream(session.pk, first.id)
    assert again is not None
    assert sent(first) is None
    assert sent(again) == [request.pk]
    assert sent(again, first=True, after=request.pk) == [], "it was received"
    assert sessions.attach_stream(session.pk + 1, first.id) is None
    assert sessions.cancel_stream(session.pk, "1") is not None
    assert sent(again) is None
    assert sessions.attach_stream(session.pk, first.id) is None


def test_a_stream_that_looks_served_but_is_not_loses_its_questions(session: Session) -> None:
    task, request = asking(session)
    dead = sessions.open_stream(session.pk, "listen")
    assert sent(dead) == [request.pk]
    waiting = sessions.open_stream(session.pk, "result", task_id=task.pk, request_id="1")
    assert sent(waiting) == [], "its client has it already"
    Stream.objects.filter(pk=dead.id).update(seen_at=timezone.now() - timedelta(seconds=30))
    assert sent(waiting, first=False) == [request.pk]


def test_a_call_in_another_session_is_asked_before_the_own_stream_of_the_first(session: Session) -> None:
    task, request = asking(session)
    own = sessions.open_stream(session.pk, "listen")
    assert sent(own) == [request.pk]
    other = start(session.context)
    waiting = sessions.open_stream(other.pk, "call", task_id=task.pk, request_id="1")
    assert sent(waiting, methods=["roots/list"]) == [], "its client cannot answer"
    assert sent(waiting) == [request.pk]
    assert sent(own, first=False) == []
    sessions.leave_stream(waiting, closed=False)
    assert sent(own, first=False) == [request.pk], "that stream is gone"
    later = sessions.open_stream(other.pk, "wait", task_id=task.pk, request_id="2")
    assert sent(later, first=False) == [request.pk], "the own stream was quicker than the first look"


def test_a_hosted_question_stays_with_the_session_of_its_host(session: Session) -> None:
    task, request = asking(session)
    own = sessions.open_stream(session.pk, "listen")
    assert sent(own) == [request.pk]
    sessions.ask_further(request.pk, "tasks/get", {"taskId": "C"}, seconds=0)
    waiting = sessions.open_stream(start(session.context).pk, "call", task_id=task.pk, request_id="1")
    assert sent(waiting, methods=[*METHODS, "tasks/get"]) == []


def test_a_step_that_is_due_later_says_when(session: Session) -> None:
    task, request = asking(session)
    place = sessions.open_stream(session.pk, "result", task_id=task.pk, request_id="1")
    assert sent(place) == [request.pk]
    sessions.ask_further(request.pk, "tasks/get", {"taskId": "C"}, seconds=30)
    found = sessions.deliver(place, first=False, methods=METHODS)
    assert found is not None
    assert found.requests == []
    assert found.seconds == pytest.approx(30, abs=5)
    sessions.hurry(session.pk, "another")
    assert sent(place, first=False) == []
    sessions.hurry(session.pk, "C")
    (step,) = sent(place, first=False) or []
    assert Outbound.objects.get(pk=step).step == 1


def test_a_question_closed_elsewhere_is_withdrawn_once(session: Session) -> None:
    task, request = asking(session)
    place = sessions.open_stream(session.pk, "result", task_id=task.pk, request_id="1")
    sent(place)
    assert sessions.withdraw(place) == []
    cancel_now(task.pk, actor=_actor(session))
    withdrawn = [(gone.sent.id, gone.delivered, gone.task_id) for gone in sessions.withdraw(place)]
    assert withdrawn == [(request.pk, True, task.pk)]
    assert sessions.withdraw(place) == []


def _actor(session: Session) -> Any:
    return Actor(name="c", door=Door.CLIENT, context_id=session.context_id)


def test_a_resource_is_followed_once_and_up_to_a_limit(session: Session) -> None:
    follow = sessions.follow_resource
    assert [follow(session.pk, session.public_id, uri, most=2) for uri in ("a", "a", "b", "c")] == [
        True,
        True,
        True,
        False,
    ]
    sessions.unfollow_resource(session.pk, session.public_id, "a")
    session.refresh_from_db()
    assert session.resources == ["b"]


def test_cancelling_now_ends_a_task_that_a_worker_holds(session: Session) -> None:
    task = make_task(session.context, state="working", session_id=session.pk, handle=True)
    assert cancel_now(task.id, actor=_actor(session)) is None
    now = task_by_id(task.id)
    assert now is not None
    assert (now.state, now.message) == ("cancelled", "Cancelled while it ran")
    assert cancel_now(task.id, actor=_actor(session)) == "cancelled"


def test_a_request_whose_stream_is_not_there_is_known_while_its_task_lives(session: Session) -> None:
    task = make_task(session.context, session_id=session.pk, request_id="1")
    make_task(session.context, session_id=session.pk, request_id="2", handle=True)
    make_task(session.context, session_id=session.pk, request_id="3", state="finished")
    own = make_task(session.context, session_id=session.pk, request_id="4", handle=True, client_task_id="c")
    assert (sessions.cancel_stream(session.pk, "1") or ())[:3] == ("call", task.id, False)
    assert (sessions.cancel_stream(session.pk, "4") or ())[:3] == ("call", own.id, True)
    assert [sessions.cancel_stream(session.pk, unknown) for unknown in ("2", "3", "5")] == [None] * 3
    assert sessions.cancel_stream(start(session.context).pk, "1") is None
