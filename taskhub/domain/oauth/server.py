"""The hub's own rules for the authorization server of django-oauth-toolkit ("the toolkit").

The toolkit checks clients, redirects, PKCE and lifetimes. Added here: codes are stored as digests, like tokens; every
token is only for this hub's `/mcp` (RFC 8707); no scope is granted that the person did not allow, or may not allow any
more; a code or refresh token works only once, even for two requests at the same moment; an event records every token.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from django.db import transaction
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749 import errors

from taskhub.core.hints import ClientStandingChanged, StandingChanged
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.address import canonical
from taskhub.domain.audit.record import record_event
from taskhub.domain.hints.announce import notify
from taskhub.domain.oauth.consents import AccessToken, Grant, RefreshToken, shown_name, standing
from taskhub.domain.oauth.documents import redirect_allowed
from taskhub.lib import ids
from taskhub.store.models import TokenFamily

ACCESS_PREFIX: Final = "thua_"
REFRESH_PREFIX: Final = "thur_"


def access_token(request: Any, refresh_token: bool = False) -> str:
    """A new access token. Called by django-oauth-toolkit, which prescribes the parameters."""
    return ids.token(ACCESS_PREFIX)


def refresh_token(request: Any, refresh_token: bool = False) -> str:
    """A new refresh token. Called by django-oauth-toolkit, which prescribes the parameters."""
    return ids.token(REFRESH_PREFIX)


def checksum(secret: str) -> str:
    """The SHA-256 digest under which tokens and codes are stored and found."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def address_of(request: Any) -> str:
    """The peer's address, from oauthlib's request."""
    return str(request.headers.get("REMOTE_ADDR", ""))[:64]


class Validator(OAuth2Validator):  # type: ignore[misc]  # the toolkit is untyped
    """Decides which requests the authorization server accepts; oauthlib calls its methods."""

    def _load_application(self, client_id: str | None, request: Any) -> Any:
        # Postgres stores no U+0000, so no client has such an id.
        return None if "\0" in (client_id or "") else super()._load_application(client_id, request)

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether the redirect URI is one of the registered ones; on the person's own machine the port may differ."""
        return redirect_allowed(redirect_uri) and bool(
            super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        )

    def _extract_basic_auth(self, request: Any) -> str | None:
        # The scheme is case-insensitive (RFC 9110, 11.1), but django-oauth-toolkit accepts one spelling only.
        scheme, _, credentials = str(request.headers.get("HTTP_AUTHORIZATION") or "").partition(" ")
        return credentials.strip() or None if scheme.lower() == "basic" else None

    # Codes are stored as a digest ----------------------------------------------------------

    def _create_authorization_code(self, request: Any, code: dict[str, Any], expires: Any = None) -> Any:
        request.nonce, request.claims = None, None  # for OpenID Connect, which is not supported
        return super()._create_authorization_code(request, {**code, "code": checksum(code["code"])}, expires)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether the code is of this client and has not expired. The second use of a code ends its tokens."""
        digest = checksum(code)
        request.grant_row = Grant.objects.filter(code=digest, application=client).first()
        if request.grant_row is None:
            self._code_reused(digest, request)
        return bool(super().validate_code(client_id, digest, client, request, *args, **kwargs))

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Whether this is the redirect URI to which the code was sent."""
        return bool(super().confirm_redirect_uri(client_id, checksum(code), redirect_uri, client, *args, **kwargs))

    def get_code_challenge(self, code: str, request: Any) -> str | None:
        """The PKCE challenge that came with the request for the code."""
        return super().get_code_challenge(checksum(code), request)  # type: ignore[no-any-return]  # untyped base

    def get_code_challenge_method(self, code: str, request: Any) -> str | None:
        """The method of the PKCE challenge, such as `S256`."""
        return super().get_code_challenge_method(checksum(code), request)  # type: ignore[no-any-return]  # untyped base

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: `save_bearer_token` has deleted the code in the transaction that stored the tokens."""

    # Tokens ----------------------------------------------------------------------------------

    def _check_and_set_request_resource(self, request: Any) -> None:
        """Set the token's resource (RFC 8707) to the resource that the person allowed. Raises `invalid_target` if the
        request names another resource."""
        source = request.grant_row if request.grant_type == "authorization_code" else request.refresh_token_instance
        asked = [value for name, value in request.decoded_body or [] if name == "resource" and value]
        if not source.resource or any(canonical(value) not in source.resource for value in asked):
            raise errors.CustomOAuth2Error(
                error="invalid_target",
                description="The token was allowed for another resource.",
                request=request,
            )
        request.resource = source.resource

    def get_original_scopes(self, refresh_token: str, request: Any, *args: Any, **kwargs: Any) -> str:
        """The scopes of a refreshed token: those that the person allowed at the sign-in, even if the last token asked
        for fewer (RFC 6749, 6), as far as they are still allowed."""
        family = TokenFamily.objects.filter(family=request.refresh_token_instance.token_family).first()
        if family is not None:
            before = list(family.scopes)
        else:  # a sign-in of a release without token families
            before = str(super().get_original_scopes(refresh_token, request, *args, **kwargs) or "").split()
        now = standing(request.user, request.client)
        return " ".join(scope for scope in before if now is not None and scope in now.scopes)

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether `refresh_token` is an unused refresh token of this client. If a token is used a second time, its
        whole family is revoked, because it is not known whether a thief or the owner has the token that replaced it."""
        if super().validate_refresh_token(refresh_token, client, request, *args, **kwargs):
            return standing(request.user, client) is not None
        spent = RefreshToken.objects.filter(token_checksum=checksum(refresh_token), revoked__isnull=False).first()
        if spent is not None:
            self._reused(spent, request)
        return False

    def save_bearer_token(self, token: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> None:
        """Store the tokens, and use up the code or refresh token from which they were made, in one transaction."""
        spent = None
        replayed = False
        with transaction.atomic():
            if request.grant_type == "refresh_token":
                # django-oauth-toolkit checked the token without a lock. If two requests have the same token, the second
                # waits here, and must be refused.
                row = RefreshToken.objects.select_for_update(of=("self",)).filter(pk=request.refresh_token_instance.pk)
                found = row.first()
                if found is None:  # the person has just withdrawn the consent
                    raise errors.InvalidGrantError(request=request)
                spent = found if found.revoked is not None else None
            else:
                code = Grant.objects.filter(code=checksum(request.code), application=request.client)
                replayed = not code.delete()[0]
            if spent is None and not replayed:
                self._save(token, request, *args, **kwargs)
        if spent is not None:
            RefreshToken.revoke_family(spent.token_family)
            self._reused(spent, request)
        if replayed:
            self._code_reused(checksum(request.code), request)
        if spent is not None or replayed:
            raise errors.InvalidGrantError(request=request)

    def _save(self, token: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> None:
        now = standing(request.user, request.client)
        scopes = token["scope"].split()
        if now is None or not scopes or not set(scopes) <= set(now.scopes):
            raise errors.InvalidGrantError(request=request)
        super().save_bearer_token(token, request, *args, **kwargs)
        if request.grant_type == "authorization_code":
            made = RefreshToken.objects.get(token_checksum=checksum(token["refresh_token"]), revoked=None)
            TokenFamily.objects.create(
                family=made.token_family,
                registration=request.client,
                user=request.user,
                code_checksum=checksum(request.code),
                scopes=scopes,
            )
        record_event(
            "token.refreshed" if request.grant_type == "refresh_token" else "token.issued",
            tenant_id=now.tenant_id,
            target=now.context.name,
            actor=self._actor(now.context.name, request, now.context.pk),
            after={
                "prefix": token["access_token"][:10],
                "scopes": scopes,
                "client_id": request.client.client_id,
                "seconds": token["expires_in"],
            },
        )
        notify(ClientStandingChanged(now.context.pk))  # a refresh revokes the previous access token

    def _code_reused(self, digest: str, request: Any) -> None:
        """Revoke the tokens of a code that was used a second time: the first user, who has them, may be a thief (RFC
        6749, 4.1.2)."""
        family = TokenFamily.objects.filter(code_checksum=digest, registration=request.client).first()
        if family is None:
            return
        newest = RefreshToken.objects.filter(token_family=family.family).order_by("-pk").first()
        RefreshToken.revoke_family(family.family)
        if newest is not None:
            self._reused(newest, request, action="code.reused")

    def _reused(self, spent: Any, request: Any, *, action: str = "token.reused") -> None:
        """Record the second use of a refresh token or code (`action`), whose token family was revoked."""
        now = standing(spent.user, spent.application)
        name = shown_name(spent.application)
        with transaction.atomic():
            record_event(
                action,
                tenant_id=now.tenant_id if now else None,
                target=now.context.name if now else name,
                actor=self._actor(name, request, now.context.pk if now else None),
                after={"person": spent.user.get_username(), "client_id": spent.application.client_id},
            )
            notify(ClientStandingChanged(now.context.pk) if now else StandingChanged())

    def revoke_token(self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """Revoke a token of this client, and the other token of its pair (RFC 7009)."""
        digest = checksum(token)
        found = next(
            (
                row
                for model in (AccessToken, RefreshToken)
                for row in model.objects.filter(token_checksum=digest, application=request.client)
            ),
            None,
        )
        with transaction.atomic():
            super().revoke_token(token, token_type_hint, request, *args, **kwargs)
            if found is None:
                return
            now = standing(found.user, found.application)
            record_event(
                "token.revoked",
                tenant_id=now.tenant_id if now else None,
                target=now.context.name if now else shown_name(found.application),
                actor=self._actor(shown_name(found.application), request, now.context.pk if now else None),
                after={"prefix": token[:10]},
            )
            notify(ClientStandingChanged(now.context.pk) if now else StandingChanged())

    @staticmethod
    def _actor(name: str, request: Any, context_id: int | None) -> Actor:
        return Actor(name=name, door=Door.CLIENT, address=address_of(request), context_id=context_id)
