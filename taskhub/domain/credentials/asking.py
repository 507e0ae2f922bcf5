"""Asks people to authorize a server, when a call cannot run without an authorization."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.records import Actor, Audience, Claim, NewQuestion, Poll, QuestionKind
from taskhub.core.words import words
from taskhub.domain.credentials.flow import answer_waiting
from taskhub.domain.credentials.grants import grants_for, widened
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.domain.tasks import deferred, run
from taskhub.store.models import Question, ServerOAuth

KEY: Final = "authorization"
"""The prefix of the keys of these questions."""


def ask_for_authorization(claim: Claim, needs: NeedsAuthorization, *, actor: Actor) -> bool:
    """Have the task wait until somebody has authorized its server. Returns `False` if the lease is lost."""
    question, message = _question(claim, needs, f"{KEY}-{claim.epoch}"), words("waiting_authorization", needs.message)
    state = claim.upstream_state
    if not run.ask(claim, [question], upstream_state=state, message=message, live=False, actor=actor):
        return False
    _look_again(claim, needs, actor)
    return True


def ask_before_poll(poll: Poll, needs: NeedsAuthorization, *, delay_ms: int, actor: Actor) -> bool:
    """As `ask_for_authorization`, for a deferred call whose server cannot be asked for its task without an
    authorization. Returns `False` if people are asked already, or if another worker has taken the poll."""
    claim = poll.claim
    if Question.objects.filter(task_id=claim.task_id, kind=QuestionKind.AUTHORIZATION, state="open").exists():
        return False
    asked = [_question(claim, needs, f"{KEY}-{claim.epoch}-{poll.turn}")]
    message = words("waiting_authorization", needs.message)
    if not deferred.ask_deferred(poll, asked, message=message, delay_ms=delay_ms, actor=actor):
        return False
    _look_again(claim, needs, actor)
    return True


def _question(claim: Claim, needs: NeedsAuthorization, key: str) -> NewQuestion:
    params: dict[str, Any] = {"server": claim.server_name, "message": needs.message}
    if needs.holder.user_id is not None:
        params["user"] = needs.holder.user_id
    elif needs.holder.context_id is None:
        params["everyone"] = True
    if needs.scopes:
        params["scopes"] = needs.scopes
    return NewQuestion(key=key, kind=QuestionKind.AUTHORIZATION, params=params, audience=Audience.OPERATOR)


def _look_again(claim: Claim, needs: NeedsAuthorization, actor: Actor) -> None:
    """Answer the question if the server was authorized meanwhile: whoever authorized it has not seen the question."""
    if _authorized(claim, needs):
        answer_waiting(claim.server_id, needs.holder, actor)


def _authorized(claim: Claim, needs: NeedsAuthorization) -> bool:
    if needs.scopes:
        return widened(claim.server_id, claim.context_id, needs.scopes)
    good = grants_for(claim.server_id, needs.holder).filter(state="good")
    return good.exists() or not ServerOAuth.objects.filter(server_id=claim.server_id).exists()
