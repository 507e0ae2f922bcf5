"""Asks people to authorize a server, when a call cannot run without."""

from __future__ import annotations

from typing import Any, Final

from taskhub.core.records import Actor, Audience, Claim, NewQuestion, QuestionKind
from taskhub.core.words import words
from taskhub.domain.credentials.flow import answer_waiting
from taskhub.domain.credentials.grants import grants_for, widened
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.domain.tasks import run
from taskhub.store.models import ServerOAuth

KEY: Final = "authorization"
"""How the keys of these questions begin."""


def ask_for_authorization(claim: Claim, needs: NeedsAuthorization, *, actor: Actor) -> bool:
    """Have the task wait until somebody has authorized its server. Returns `False` if the lease is lost."""
    params: dict[str, Any] = {"server": claim.server_name, "message": needs.message}
    if needs.holder.user_id is not None:
        params["user"] = needs.holder.user_id
    elif needs.holder.context_id is None:
        params["everyone"] = True
    if needs.scopes:
        params["scopes"] = needs.scopes
    question = NewQuestion(
        key=f"{KEY}-{claim.epoch}", kind=QuestionKind.AUTHORIZATION, params=params, audience=Audience.OPERATOR
    )
    message = words("waiting_authorization", needs.message)
    state = claim.upstream_state
    if not run.ask(claim, [question], upstream_state=state, message=message, live=False, actor=actor):
        return False
    if _authorized(claim, needs):  # meanwhile: whoever did that has not seen the question
        answer_waiting(claim.server_id, needs.holder, actor)
    return True


def _authorized(claim: Claim, needs: NeedsAuthorization) -> bool:
    if needs.scopes:
        return widened(claim.server_id, claim.context_id, needs.scopes)
    good = grants_for(claim.server_id, needs.holder).filter(state="good")
    return good.exists() or not ServerOAuth.objects.filter(server_id=claim.server_id).exists()
