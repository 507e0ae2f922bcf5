"""Calls Slack's API: finds people, posts messages and draws them again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from taskhub.lib.later import seconds_of
from taskhub.lib.tls import trusted
from taskhub.notify.slack.writing import Written

SECONDS: Final = 20.0
"""Seconds in which Slack has to take a message, from the first request on."""
MAX_LATER: Final = 3_600.0
"""The longest pause, in seconds. A `Retry-After` that asks for more counts as this."""
LOOKED_AT: Final = 100
"""How many messages of a conversation are searched for one that was perhaps posted before."""
_EVENT: Final = "taskhub_message"
_FOREVER: Final = frozenset(
    ["users_not_found", "user_not_found", "user_not_visible", "users_list_not_supplied", "user_disabled", "is_inactive"]
)
"""Errors after which no later attempt would help."""
_WORDS: Final = {
    "users_not_found": "Slack knows nobody with this address",
    "user_not_found": "Slack knows nobody with this member ID",
    "user_disabled": "This Slack account is deactivated",
    "invalid_auth": "Slack refuses the bot token",
    "missing_scope": "The Slack app lacks a scope that it needs",
}


@dataclass(frozen=True, slots=True)
class Slack:
    """The tokens of the Slack app, and the address of Slack's API."""

    bot_token: str
    app_token: str
    api_url: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a call of Slack's API. `problem` says in words why Slack refused; empty if it did not. `status` is
    `None` if Slack did not answer. `forever`: no later attempt would help."""

    status: int | None = None
    text: str = ""
    problem: str = ""
    later: float | None = None
    forever: bool = False
    account: str = ""
    name: str = ""
    conversation: str = ""
    ts: str = ""


class Sender:
    """Calls Slack's API. For one event loop. An error of Slack or of the connection raises nothing: it is in the
    answer."""

    def __init__(self, slack: Slack) -> None:
        self._web = client(slack)

    async def account_of(self, address: str) -> Answer:
        """The account (`team:user`) with this e-mail address or member ID, and the name that Slack shows for it."""

        async def found() -> Answer:
            if "@" in address:
                answer = await self._web.users_lookupByEmail(email=address)
            else:
                answer = await self._web.users_info(user=address.rpartition(":")[2])
            user: dict[str, Any] = answer["user"]
            if user.get("deleted"):
                return Answer(200, "user_disabled", _WORDS["user_disabled"], forever=True)
            return Answer(200, account=f"{user['team_id']}:{user['id']}", name=_name(user))

        return await _answer(found)

    async def post(self, message_id: str, account: str, written: Written, *, again: bool) -> Answer:
        """Post a message to an account (`team:user`). With `again`, look first whether an earlier attempt posted it.
        The answer has its `conversation` and `ts`, which together name the message."""

        async def posted() -> Answer:
            opened = await self._web.conversations_open(users=account.rpartition(":")[2])
            conversation = str(opened["channel"]["id"])
            if again and (ts := await self._posted(conversation, message_id)):
                return Answer(200, "posted before", conversation=conversation, ts=ts)
            answer = await self._web.chat_postMessage(
                channel=conversation,
                text=written.text,
                blocks=written.blocks,
                mrkdwn=False,
                parse="none",
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": _EVENT, "event_payload": {"id": message_id}},
            )
            return Answer(200, "posted", conversation=str(answer["channel"]), ts=str(answer["ts"]))

        return await _answer(posted)

    async def draw(self, conversation: str, ts: str, written: Written) -> Answer:
        """Replace the message at this place by `written`."""

        async def drawn() -> Answer:
            await self._web.chat_update(
                channel=conversation, ts=ts, text=written.text, blocks=written.blocks, parse="none"
            )
            return Answer(200)

        return await _answer(drawn)

    async def open_view(self, trigger: str, view: dict[str, Any]) -> Answer:
        """Open a dialog. `trigger` comes from a click, and has to be used within seconds."""

        async def opened() -> Answer:
            await self._web.views_open(trigger_id=trigger, view=view)
            return Answer(200)

        return await _answer(opened)

    async def _posted(self, conversation: str, message_id: str) -> str:
        answer = await self._web.conversations_history(channel=conversation, limit=LOOKED_AT, include_all_metadata=True)
        messages: list[dict[str, Any]] = answer["messages"]
        for message in messages:
            metadata = message.get("metadata") or {}
            if metadata.get("event_type") == _EVENT and metadata.get("event_payload", {}).get("id") == message_id:
                return str(message["ts"])
        return ""


def _name(user: dict[str, Any]) -> str:
    profile = user.get("profile") or {}
    names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((name.strip() for name in names if isinstance(name, str) and name.strip()), "")


def client(slack: Slack) -> AsyncWebClient:
    """A client of Slack's API. It does not repeat requests by itself, because a message could be posted twice."""
    secure = slack.api_url.startswith("https:")
    return AsyncWebClient(
        slack.bot_token, slack.api_url, timeout=int(SECONDS), ssl=trusted() if secure else None, retry_handlers=[]
    )


async def _answer(call: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        async with asyncio.timeout(SECONDS):
            return await call()
    except TimeoutError:
        return Answer(problem=f"No answer within {SECONDS:g} s")
    except SlackApiError as error:
        return _refused(error)
    except aiohttp.ClientConnectorError as error:
        return Answer(problem=f"Cannot connect: {error.os_error.strerror or 'no connection'}")
    except (aiohttp.ClientError, SlackClientError, OSError, ValueError, KeyError, TypeError) as error:
        return Answer(problem=f"Slack did not answer as it should ({type(error).__name__})")


def _refused(error: SlackApiError) -> Answer:
    response: Any = error.response
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)
    headers = getattr(response, "headers", {})
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    later = None if asked is None else seconds_of(str(asked), MAX_LATER)
    if status >= 500:
        return Answer(status, code, f"Slack answered {status}", later=later)
    return Answer(
        status or None,
        code,
        _WORDS.get(code, f"Slack refused: {code[:100] or status}"),
        later=later,
        forever=code in _FOREVER,
    )
