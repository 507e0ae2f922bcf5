"""Browser sessions, stored in the database under the SHA-256 of the cookie, so that somebody who reads the table cannot
sign in with it. (`SESSION_ENGINE` names this module; sessions of MCP clients are in `domain.sessions.writes`.)"""

from __future__ import annotations

from typing import Any

from allauth.account.internal.stagekit import LOGIN_SESSION_KEY
from allauth.account.utils import url_str_to_user_pk
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db

from taskhub.lib import ids
from taskhub.store import statements
from taskhub.store.models import SignIn

_PURGE = statements.rowcount("purge_sign_ins")


def purge_sign_ins(*, limit: int = 1_000) -> int:
    """Delete expired browser sessions, at most `limit`. Returns how many."""
    return _PURGE(most=limit)


def row_key(cookie: str) -> str:
    """The key of the row for a cookie's value."""
    return ids.digest(cookie).hex()


class SessionStore(db.SessionStore):
    """Django's session store in the database, with the digest of the cookie as the key, and with the user in the row,
    so that the database can end the sessions of a person who is disabled or gets another password
    (`domain/people/functions.sql`). The row has the user even while the sign-in waits for the code of a second factor,
    so that it ends too if the password changes meanwhile; such a row does not sign anybody in.

    The class keeps Django's name, which is part of the signature of the stored data. The asynchronous methods are not
    overridden, because sessions are not used in an event loop: these methods find no session, and the table refuses
    what they write."""

    @classmethod
    def get_model_class(cls) -> type[SignIn]:
        """The Django model of the table."""
        return SignIn

    def _get_session_from_db(self) -> SignIn | None:
        found = SignIn.alive(row_key(self.session_key)).first() if self.session_key else None
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        """Whether there is a session for this cookie."""
        return bool(super().exists(row_key(session_key)))

    def create_model_instance(self, data: Any) -> SignIn:
        """The row to be written for this session."""
        row = super().create_model_instance(data)
        assert isinstance(row, SignIn)
        row.session_key = row_key(row.session_key)
        row.user_id = data.get(SESSION_KEY) or _half_signed_in(data)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """End the session of the cookie `session_key`, or this session if it is `None`."""
        key = session_key if session_key is not None else self.session_key
        if key is not None:
            super().delete(row_key(key))


def _half_signed_in(data: Any) -> int | None:
    """The id of the user who has typed the password in this session, but no code yet; `None` if there is none."""
    pending = data.get(LOGIN_SESSION_KEY)
    if not pending or not pending.get("user_pk"):
        return None
    return int(url_str_to_user_pk(pending["user_pk"]))  # type: ignore[no-untyped-call]  # allauth's
