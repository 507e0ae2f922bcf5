"""`/api/v1/approvals` as django-ninja operations: they read a request, hand it to `protocol.approvals` and write the
answer. Requests have a token and no cookies, like those of `/mcp`."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, cast

from django.http import HttpRequest, HttpResponse
from ninja import Header, NinjaAPI, Path, Query, Router, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser
from ninja.security.base import AuthBase
from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field

from taskhub.api.auth import Unauthorized, authenticate, scope_challenge
from taskhub.api.endpoint import McpRequest, deny_on_record, headers_of
from taskhub.core.errors import Forbidden, Invalid, KeyReused, LimitReached, NotFound, TaskHubError, Unavailable
from taskhub.core.names import APPROVALS_SCOPE
from taskhub.core.records import Principal
from taskhub.core.versions import Version
from taskhub.domain.address import has_authorization_server, metadata_of
from taskhub.domain.permits.records import DEFAULT_SECONDS, FEWEST_SECONDS, MOST_SECONDS
from taskhub.domain.permits.signatures import jwks
from taskhub.lib import jsonx
from taskhub.protocol import approvals
from taskhub.protocol.approvals import MAX_WAIT_SECONDS, NoFit, NotRedeemed, Status
from taskhub.protocol.calls import ScopeMissing, need_scope
from taskhub.protocol.incoming import Incoming

MAX_PROGRAM: Final = 100
"""The most characters of the name of a client's program."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d")
_JSON: Final = "application/json"


class Strict(Schema):
    """Base class of request bodies; an unknown member is an error."""

    model_config = ConfigDict(extra="forbid", strict=False)


def _written_as_time(value: Any) -> Any:
    # Pydantic alone would accept seconds, as a number or a text, and `true` as 1 second.
    if value is not None and not (isinstance(value, str) and _TIME.match(value)):
        raise ValueError("A time is a text as in RFC 3339, such as 2026-12-01T12:00:00Z")
    return value


Arguments = Annotated[dict[str, Any], Field(description="The arguments of the call, as they will be sent.")]
Program = Annotated[
    str, Field(max_length=MAX_PROGRAM, description="What the client's program calls itself, for rules and people.")
]


class ApprovalRequest(Strict):
    """A call that its client wants to make itself."""

    server: str = Field(min_length=1, max_length=128, description="The server's name in the hub.")
    tool: str = Field(min_length=1, max_length=512, description="The tool's name at that server.")
    arguments: Arguments = {}
    wanted_by: Annotated[AwareDatetime | None, BeforeValidator(_written_as_time)] = Field(
        None, description="Until when people may decide, with an offset from UTC; a day from now if it is absent."
    )
    valid_seconds: int = Field(
        DEFAULT_SECONDS,
        strict=True,
        ge=FEWEST_SECONDS,
        le=MOST_SECONDS,
        description="How long the permit can be redeemed, from the decision on.",
    )
    program: Program = ""


class Redeemed(Strict):
    """A permit, and the call for which it is used."""

    permit: str = Field(min_length=1, max_length=8_192)
    arguments: Arguments = {}
    program: Program = ""


class ApprovalAnswer(Schema):
    """Where a request stands. Only what applies is there."""

    id: str | None = None
    status: Status
    message: str | None = Field(None, description="For the model and for people.")
    permit: str | None = Field(None, description="With `granted`: the permit, a JWS in compact form.")
    expires_at: datetime | None = Field(None, description="With `granted`: until when the permit can be redeemed.")
    page: str | None = Field(None, description="With `pending`: the page in the console, for people.")


class Problem(Schema):
    """Why a request was refused."""

    code: str
    message: str
    field: str | None = None


class Refusal(Schema):
    """The body of every refusal."""

    error: Problem


class Bearer(AuthBase):
    """Requires a bearer token with the scope for approvals, and puts the request's `Incoming` into `request.auth`."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    is_async: bool

    def __init__(self) -> None:
        super().__init__()
        self.is_async = True

    async def __call__(self, request: HttpRequest) -> Incoming:
        """The `Incoming` of the request. Raises `Unauthorized`, `ScopeMissing`, and `LimitReached` for a client over
        its rates."""
        lean = cast("McpRequest", request)
        headers, repeated = headers_of(lean.scope["headers"])
        client = lean.scope.get("client")
        address = client[0] if client else ""
        find = partial(
            authenticate,
            headers.get("authorization"),
            request=lean,
            lanes=lean.hub.lanes,
            anonymous=False,
            repeated="authorization" in repeated,
        )
        principal: Principal = await find()

        async def valid() -> bool:
            try:
                return APPROVALS_SCOPE in (await find()).scopes
            except Unauthorized:
                return False

        lean.hub.admit(principal, address, len(lean.body_bytes))
        incoming = Incoming(
            body=lean.body_bytes,
            headers=headers,
            repeated=repeated,
            principal=principal,
            address=address,
            gone=lean.gone,
            valid=valid,
            verb=str(lean.method),
        )
        try:
            need_scope(principal, APPROVALS_SCOPE)
        except ScopeMissing:
            await deny_on_record(lean, incoming, APPROVALS_SCOPE)
            raise
        return incoming


class StrictParser(Parser):
    """Reads bodies in the same strict way as `/mcp`, so that everything that reads the arguments gets the same
    values. Numbers are not rounded: the client makes the call itself, with the number that it has."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The decoded body. Raises `JsonError`."""
        return jsonx.decode(request.body, rounding=False)


router = Router(auth=Bearer(), tags=["approvals"])
Id = Annotated[str, Path(description="The id of the request.")]
Wait = Annotated[
    float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a decision, while people are asked.")
]
_REFUSALS: Final[dict[Any, Any]] = {400: Refusal, 401: Refusal, 403: Refusal, 404: Refusal, 422: Refusal, 429: Refusal}


@router.get("/jwks.json", auth=None, response=dict[str, Any])
async def keys(request: HttpRequest) -> HttpResponse:
    """The public key with which permits are verified, as a JWK Set (RFC 7517)."""
    response = HttpResponse(jsonx.encode(jwks()), content_type="application/jwk-set+json")
    response["Cache-Control"] = "public, max-age=300"
    return response


@router.post("", response={200: ApprovalAnswer, 201: ApprovalAnswer, 409: Refusal, **_REFUSALS})
async def request_approval(
    request: HttpRequest,
    body: ApprovalRequest,
    wait: Wait = 0,
    idempotency_key: Annotated[
        str | None, Header(alias="Idempotency-Key", description="The same key and call: the same request.")
    ] = None,
) -> HttpResponse:
    """Have a call decided: by a rule at once (`granted` or `denied`), or by people (`pending`)."""
    wanted = approvals.Wanted(
        server=body.server,
        tool=body.tool,
        arguments=body.arguments,
        wanted_by=body.wanted_by,
        valid_seconds=body.valid_seconds,
        program=body.program,
        key=idempotency_key,
    )
    made = await approvals.request_approval(_hub(request), _incoming(request), wanted, wait=wait)
    return _answer(made, status=201 if made.id else 200)


@router.get("/{approval_id}", response={200: ApprovalAnswer, **_REFUSALS})
async def approval(request: HttpRequest, approval_id: Id, wait: Wait = 0) -> HttpResponse:
    """Where the request stands."""
    return _answer(await approvals.approval(_hub(request), _incoming(request), approval_id, wait=wait))


@router.delete("/{approval_id}", response={200: ApprovalAnswer, **_REFUSALS})
async def cancel_approval(request: HttpRequest, approval_id: Id) -> HttpResponse:
    """Withdraw a request that is not decided yet. One that is decided stays as it is."""
    return _answer(await approvals.cancel_approval(_hub(request), _incoming(request), approval_id))


@router.post("/{approval_id}/redeem", response={200: ApprovalAnswer, 409: Refusal, **_REFUSALS})
async def redeem(request: HttpRequest, approval_id: Id, body: Redeemed) -> HttpResponse:
    """Use the permit for a call with these arguments, which is made after this succeeded. It succeeds once."""
    done = await approvals.redeem(
        _hub(request),
        _incoming(request),
        approval_id,
        permit=body.permit,
        arguments=body.arguments,
        program=body.program,
    )
    return _answer(done)


rest_api = NinjaAPI(
    title="TaskHub",
    version="1",
    urls_namespace="rest",
    docs_url=None,  # the page would load its scripts from another site
    openapi_url="/openapi.json",
    parser=StrictParser(),
)
rest_api.add_router("/approvals", router)


def _hub(request: HttpRequest) -> Any:
    return cast("McpRequest", request).hub


def _incoming(request: HttpRequest) -> Incoming:
    found: Incoming = request.auth  # type: ignore[attr-defined]  # set by ninja
    return found


def _answer(found: approvals.Approval, *, status: int = 200) -> HttpResponse:
    body = {
        "id": found.id,
        "status": found.status,
        "message": found.message,
        "permit": found.permit,
        "expires_at": "" if found.expires_at is None else found.expires_at.isoformat(),
        "page": found.page,
    }
    response = HttpResponse(
        jsonx.encode({name: value for name, value in body.items() if value}), status=status, content_type=_JSON
    )
    response["Cache-Control"] = "no-store"
    if status == 201:
        response["Location"] = f"/api/v1/approvals/{found.id}"
    return response


def refusal(status: int, code: str, message: str, *, field: str = "") -> HttpResponse:
    """The response to a request that is refused."""
    error = {"code": code, "message": message} | ({"field": field} if field else {})
    response = HttpResponse(jsonx.encode({"error": error}), status=status, content_type=_JSON)
    response["Cache-Control"] = "no-store"
    return response


def refused(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    """The response to an error that a caller may be told about. Raises any other error again."""
    match error:
        case Unauthorized() | AuthenticationError():
            return _unauthorized(request, error.error if isinstance(error, Unauthorized) else "")
        case ScopeMissing():
            response = refusal(403, "insufficient_scope", error.message)
            granted = {APPROVALS_SCOPE}
            return scope_challenge(response, error.scope, request, granted=granted, version=Version.MCP_2026_07_28)
        case NotRedeemed():
            return refusal(409, error.why, error.message)
        case NoFit():
            return refusal(422, "arguments_do_not_fit", error.message)
        case Invalid():
            return refusal(422, error.code, error.message, field=str(error.data.get("field", "")))
        case ValidationError():
            first = error.errors[0]
            if first["loc"][0] == "body" and not request.body:
                return refusal(400, "invalid", "The body is empty: a JSON object was expected.")
            # `loc` begins with the kind of the input. For a field of the body, the parameter `body` is named next.
            path = first["loc"][2 if first["loc"][0] == "body" else 1 :]
            message = str(first["msg"]).removeprefix("Value error, ")
            return refusal(422, "invalid", message, field=".".join(map(str, path)))
        case HttpError():
            return refusal(error.status_code, "invalid", str(error.__cause__ or error))
        case NotFound():
            return refusal(404, error.code, error.message)
        case KeyReused():
            return refusal(409, error.code, error.message)
        case Forbidden():
            return refusal(403, error.code, error.message)
        case LimitReached() | Unavailable():
            response = refusal(429 if isinstance(error, LimitReached) else 503, error.code, error.message)
            response["Retry-After"] = str(error.data.get("retry_after", 1))
            return response
    raise error


def _unauthorized(request: HttpRequest, error: str) -> HttpResponse:
    malformed = error == "invalid_request"
    why = "The Authorization header is malformed" if malformed else "A valid bearer token is required"
    response = refusal(400 if malformed else 401, error or "unauthorized", why)
    parts = [f'error="{error}"'] if error else []
    parts.append(f'scope="{APPROVALS_SCOPE}"')
    if has_authorization_server():
        parts.append(f'resource_metadata="{metadata_of(request)}"')
    response["WWW-Authenticate"] = f"Bearer {', '.join(parts)}"
    return response


for _kind in (Unauthorized, AuthenticationError, ScopeMissing, TaskHubError, ValidationError, HttpError):
    rest_api.add_exception_handler(_kind, refused)
