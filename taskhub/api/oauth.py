"""The endpoints of the authorization server for programs: metadata, token, revocation, registration.

Pages of any origin may call them, for clients that run in a browser; cookies are ignored. The consent
page is part of the console (`console/views/consent.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from allauth.core import ratelimit
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from oauth2_provider.views import (
    OAuthProtectedResourceMetadataView,
    OAuthServerMetadataView,
    RevokeTokenView,
    TokenView,
)

from taskhub.api.away import later, reason
from taskhub.core.errors import Invalid, LimitReached
from taskhub.core.names import CALL_SCOPES
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.address import authorization_servers, base_url, resource_of
from taskhub.domain.credentials.flow import DOCUMENT, document
from taskhub.domain.oauth.applications import register
from taskhub.domain.oauth.consents import AccessToken
from taskhub.lib import jsonx

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
OPEN_PATHS: Final = frozenset(
    {
        RESOURCE_METADATA,
        f"{RESOURCE_METADATA}/mcp",
        SERVER_METADATA,
        "/oauth/token",
        "/oauth/revoke",
        "/oauth/register",
        DOCUMENT,
    }
)
"""The paths of these endpoints, which accept requests of any Origin; all other paths refuse foreign origins."""

REFUSED: Final = "oauth_refused"
REGISTERED: Final = "oauth_registered"
"""Names of rate limits (`ACCOUNT_RATE_LIMITS` in the settings)."""
GRANTS: Final = ("authorization_code", "refresh_token")
"""The grant types that the token endpoint accepts. Checked here, because django-oauth-toolkit looks up device codes
before it makes any check."""

View = Callable[..., Any]


def open_to_browsers(*methods: str, when: Callable[[], bool] = lambda: True) -> Callable[[View], View]:
    """A decorator of views that scripts of any origin may call: the view gets no cookies and an anonymous user,
    preflights are answered, and any origin may read the responses. 404 while `when()` is false."""

    def decorate(view: View) -> View:
        @csrf_exempt
        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            request.COOKIES = {}
            request.user = AnonymousUser()
            if not when():
                response = _json({"error": "not_found"}, status=404)
            elif request.method == "OPTIONS":
                response = HttpResponse(status=204)
            elif (request.method if request.method != "HEAD" else "GET") not in methods:
                response = _json({"error": "invalid_request"}, status=405)
                response["Allow"] = ", ".join((*methods, "OPTIONS"))
            else:
                try:
                    response = _limited(request) or view(request, *args, **kwargs)
                except (BadRequest, MultiPartParserError, SuspiciousOperation, UnreadablePostError):
                    response = _json({"error": "invalid_request"}, status=400)
                except Exception as error:  # noqa: BLE001 - `reason` raises other errors again
                    away = {"error": "temporarily_unavailable", "error_description": reason(error)}
                    response = later(request, _json(away, status=503), away["error_description"])
            response["Access-Control-Allow-Origin"] = "*"
            response["Access-Control-Allow-Methods"] = ", ".join((*methods, "OPTIONS"))
            response["Access-Control-Allow-Headers"] = "Authorization, Content-Type, MCP-Protocol-Version"
            response["Access-Control-Expose-Headers"] = "Retry-After, WWW-Authenticate"
            response["Access-Control-Max-Age"] = "600"
            return response

        return guarded

    return decorate


def built_in() -> bool:
    """Whether the built-in authorization server is on."""
    return bool(settings.TASKHUB_OAUTH)


class _ResourceMetadata(OAuthProtectedResourceMetadataView):  # type: ignore[misc]  # the toolkit is untyped
    def get_resource(self, request: HttpRequest) -> str:
        return resource_of(request)

    def get_authorization_servers(self, request: HttpRequest) -> list[str]:
        return authorization_servers(request)

    def get_scopes_supported(self) -> list[str]:
        return sorted(CALL_SCOPES)

    def get_resource_name(self) -> str:
        return "TaskHub"


_token: View = TokenView.as_view()
_revoke: View = RevokeTokenView.as_view()

resource_metadata = open_to_browsers("GET", when=lambda: built_in() or bool(settings.OIDC_ISSUER))(
    _ResourceMetadata.as_view()
)
"""RFC 9728: the identifier of this resource, and its authorization servers (AU-01, AU-02)."""

server_metadata = open_to_browsers("GET", when=built_in)(OAuthServerMetadataView.as_view())
"""RFC 8414: the endpoints of the built-in authorization server, and its capabilities."""


@open_to_browsers("POST", when=built_in)
@sensitive_post_parameters()
def token(request: HttpRequest) -> HttpResponse:
    """Exchange an authorization code or a refresh token for tokens (RFC 6749)."""
    grant = request.POST.get("grant_type")
    if _repeated(request) or not grant:
        response = _json({"error": "invalid_request"}, status=400)
    elif grant not in GRANTS:
        response = _json({"error": "unsupported_grant_type"}, status=400)
    else:
        try:
            answer = _token(request)
        except AccessToken.DoesNotExist:
            # The same code or refresh token was sent again in the meantime, which ended the sign-in and its new tokens.
            answer = _json({"error": "invalid_grant"}, status=400)
        response = _plain(request, answer)
    response["Cache-Control"] = "no-store"
    return response


@open_to_browsers("POST", when=built_in)
@sensitive_post_parameters()
def revoke(request: HttpRequest) -> HttpResponse:
    """Revoke a token (RFC 7009). An unknown token is no error."""
    if _repeated(request):
        return _json({"error": "invalid_request"}, status=400)
    return _plain(request, _revoke(request))


@open_to_browsers("POST", when=lambda: built_in() and bool(settings.TASKHUB_OAUTH_REGISTRATION))
def registration(request: HttpRequest) -> HttpResponse:
    """Register a program by its own request (RFC 7591); 404 unless TASKHUB_OAUTH_REGISTRATION is on."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    if not ratelimit.consume(request, action=REGISTERED):
        return _later("Too many registrations.", seconds=3_600)
    try:
        document = jsonx.decode(request.body)
        if not isinstance(document, dict):
            raise Invalid("The body must be a JSON object.")
        answer = register(document, actor=Actor(name="registration", door=Door.CLIENT, address=address))
    except jsonx.JsonError:
        return _json({"error": "invalid_client_metadata", "error_description": "The body is not JSON."}, status=400)
    except Invalid as error:
        code = "invalid_redirect_uri" if error.data.get("field") == "redirect_uris" else "invalid_client_metadata"
        return _json({"error": code, "error_description": error.message}, status=400)
    except LimitReached as error:
        return _json({"error": "temporarily_unavailable", "error_description": error.message}, status=429)
    response = _json(answer, status=201)
    response["Cache-Control"] = "no-store"
    return response


@open_to_browsers("GET")
def client_document(request: HttpRequest) -> HttpResponse:
    """The client id metadata document: it describes the hub as a client of the authorization servers of servers behind
    it."""
    return _json(document(base_url(request)), status=200)


def _repeated(request: HttpRequest) -> bool:
    """Whether a parameter was sent twice, which only `resource` may be (RFC 6749, 3.2; RFC 8707, 2)."""
    return any(len(values) > 1 for name, values in request.POST.lists() if name != "resource")


def _plain(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Correct the headers of a response of django-oauth-toolkit, and count a refusal. Returns the response."""
    response["Content-Type"] = "application/json"
    if response.status_code == 401 and request.headers.get("Authorization", "")[:6].lower() == "basic ":
        response["WWW-Authenticate"] = 'Basic realm="TaskHub"'  # the scheme that was tried (RFC 6749, 5.2)
    if response.status_code >= 400:
        ratelimit.consume(request, action=REFUSED)
    return response


def _limited(request: HttpRequest) -> HttpResponse | None:
    """The 429 for an address with too many refusals in the last minute; else `None`. Only refusals count: any number of
    requests with a valid code or token is allowed."""
    if request.method != "POST" or ratelimit.consume(request, action=REFUSED, dry_run=True):
        return None
    return _later("Too many refusals.", seconds=60)


def _later(why: str, *, seconds: int) -> HttpResponse:
    response = _json({"error": "temporarily_unavailable", "error_description": why}, status=429)
    response["Retry-After"] = str(seconds)
    return response


def _json(value: dict[str, Any], *, status: int) -> HttpResponse:
    return HttpResponse(jsonx.encode(value), status=status, content_type="application/json")
