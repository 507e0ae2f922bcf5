"""A program that signs people in: the requests an OAuth client makes, and the person's browser."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.test import Client

from taskhub.core.names import SCOPES
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.oauth.applications import add_application
from taskhub.domain.oauth.consents import Registration
from taskhub.store.models import Application, Tenant

HERE = "http://testserver"
RESOURCE = f"{HERE}/mcp"
CALLBACK = "https://app.example.com/callback"
ROOT = Actor(name="root", door=Door.WEB)


def make_application(
    tenant: Tenant, name: str = "Deployer", *redirects: str, confidential: bool = False
) -> tuple[Application, str]:
    """An application that an administrator registered, and its secret."""
    pk, secret = add_application(
        tenant_id=tenant.pk, name=name, redirects=redirects or (CALLBACK,), confidential=confidential, actor=ROOT
    )
    return Application.objects.select_related("registration").get(pk=pk), secret


@dataclass
class Program:
    """One application's side of a sign-in; `person` is a browser in which somebody is signed in."""

    person: Client
    client_id: str
    secret: str = ""
    redirect_uri: str = CALLBACK
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    wire: Client = field(default_factory=Client)

    @classmethod
    def of(cls, person: Client, application: Application, secret: str = "", **more: Any) -> Program:
        """The program that an administrator registered."""
        registration = Registration.objects.get(pk=application.registration_id)
        return cls(person, registration.client_id, secret, **more)

    def address(self, **changes: Any) -> str:
        """Where the person is sent; a change of `None` leaves the parameter out."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(SCOPES),
            "state": "s-1",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            **changes,
        }
        return "/oauth/authorize?" + urlencode({name: value for name, value in query.items() if value is not None})

    def ask(self, **changes: Any) -> Any:
        """What the person sees."""
        return self.person.get(self.address(**changes))

    def decide(self, *scopes: str, decision: str = "allow", **changes: Any) -> Any:
        """The person allows these scopes, all of them when none is named, or denies."""
        return self.person.post(self.address(**changes), {"grant": scopes or SCOPES, "decision": decision})

    def code(self, *scopes: str, **changes: Any) -> str:
        """The code that the person's browser brings back."""
        return told(self.decide(*scopes, **changes))["code"]

    def exchange(self, code: str, **changes: Any) -> Any:
        """The code for tokens."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": RESOURCE,
        }
        return self.token(**{**form, **changes})

    def refresh(self, refresh_token: str, **changes: Any) -> Any:
        """A refresh token for the next tokens."""
        return self.token(grant_type="refresh_token", refresh_token=refresh_token, **changes)

    def token(self, **form: Any) -> Any:
        """The token endpoint's answer."""
        form = {"client_id": self.client_id, **form}
        if self.secret:
            form["client_secret"] = self.secret
        return self.wire.post("/oauth/token", {name: value for name, value in form.items() if value is not None})

    def revoke(self, token: str) -> Any:
        """The revocation endpoint's answer."""
        form = {"client_id": self.client_id, "token": token}
        return self.wire.post("/oauth/revoke", {**form, **({"client_secret": self.secret} if self.secret else {})})

    def sign_in(self, *scopes: str, **changes: Any) -> dict[str, Any]:
        """All of it: the tokens."""
        answer = self.exchange(self.code(*scopes, **changes))
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found


def told(response: Any) -> dict[str, str]:
    """What a redirect back to the program says."""
    assert response.status_code == 302, (response.status_code, response.content[:2_000])
    return dict(parse_qsl(urlsplit(response["Location"]).query))
