"""Rules for signing in, on top of allauth: accounts are made by admins only; every sign-in is on record."""

from __future__ import annotations

from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import ratelimit
from allauth.mfa.stages import AuthenticateStage
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.crypto import constant_time_compare

from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit.record import record_event
from taskhub.domain.clients.principals import person_of
from taskhub.store.models import Membership

_ALLAUTHS: Final = f"{AuthenticateStage.__module__}.{AuthenticateStage.__qualname__}"
_PASSWORD: Final = "taskhub_password"  # noqa: S105 - a key in the state of a sign-in, no password


class CodeStage(AuthenticateStage):
    """The second step of signing in, with the code of a second factor. It succeeds only if the password is still the
    one that was typed in the first step. This has to be checked, because a sign-in that is stored right after a change
    of the password is not ended by that change (`end_sign_ins` in `domain/people/functions.sql`)."""

    def handle(self) -> tuple[Any, bool]:
        """Keep a hash of the password for the second step, the same that Django keeps in each session."""
        if self.login.user is not None:
            self.login.state[_PASSWORD] = self.login.user.get_session_auth_hash()
        response, goes_on = super().handle()
        return response, bool(goes_on)

    def exit(self) -> Any:
        """Sign the person in after the right code; or lead back to the first step if the password has changed
        meanwhile."""
        step: Any = super()  # allauth has no types
        return step.exit() if has_typed_password(self.login) else step.abort()


def has_typed_password(login: Any) -> bool:
    """Whether the password of the person who is signing in (an `allauth.account.models.Login`) is still the one that
    they typed."""
    kept = login.state.get(_PASSWORD, "")
    return login.user is not None and constant_time_compare(kept, login.user.get_session_auth_hash())


class ClosedAccounts(DefaultAccountAdapter):
    """No sign-up page, and events for the audit log."""

    def get_login_stages(self) -> list[str]:
        """The steps of signing in, with `CodeStage` in place of allauth's step for the code."""
        ours = f"{CodeStage.__module__}.{CodeStage.__qualname__}"
        return [ours if stage == _ALLAUTHS else stage for stage in super().get_login_stages()]

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Always `False`: only admins add people."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """The browser's IP address, as the guard (`api.guard`) determined it by the trusted proxies."""
        return str(request.META.get("REMOTE_ADDR") or "unknown")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        """The page of the person's account, which is shown after the change to people who did not come from another
        page."""
        return reverse("account")

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        """The page that a person with a disabled account sees after the right password. Records the refusal."""
        _record("person.refused", request, user)
        return render(request, "account/account_inactive.html", status=403)

    def login(self, request: HttpRequest, user: Any) -> None:
        """Sign the person in, and record it."""
        super().login(request, user)
        _record("person.signed.in", request, user)

    def logout(self, request: HttpRequest) -> None:
        """Sign the person out, and record it."""
        user = request.user
        super().logout(request)
        _record("person.signed.out", request, user)

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Only the password: to change their second factor, people cannot confirm with a code."""
        return [{"id": "reauthenticate", "description": "Use your password", "url": reverse("account_reauthenticate")}]

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Record a wrong password or an unknown username. `ACCOUNT_RATE_LIMITS` limits the number of attempts."""
        name = str(credentials.get("username") or "")
        users: Any = get_user_model()
        _record("person.refused", request, users.objects.filter(username__iexact=name).first() if name else None)

    def clean_password(self, password: str, user: Any = None) -> str:
        """Validate a new password and return it. It must not be the present password, which somebody else may know."""
        cleaned: str = super().clean_password(password, user=user)
        if user is not None and user.pk and user.check_password(cleaned):
            raise ValidationError("This is the password that you have. Choose another.")
        return cleaned

    def set_password(self, user: Any, password: str) -> None:
        """Set a password that the person has chosen, and clear `password_due`."""
        super().set_password(user, password)
        Membership.objects.filter(user=user, password_due=True).update(password_due=False)
        ratelimit.clear(self.request, action="change_password")
        _record("person.password.changed", self.request, user)


def _record(action: str, request: HttpRequest, user: Any) -> None:
    """Record an event of a sign-in. An unknown username is not recorded: it may be a password in the wrong field."""
    person = person_of(user.pk, user.get_username()) if user is not None else None
    name = user.get_username() if user is not None else "nobody"
    record_event(
        action,
        tenant_id=person.tenant_id if person else None,
        target=name,
        actor=Actor(
            name="a stranger" if action == "person.refused" else name,
            door=Door.WEB,
            address=str(request.META.get("REMOTE_ADDR") or ""),
            user_id=None if user is None or action == "person.refused" else user.pk,
        ),
    )
