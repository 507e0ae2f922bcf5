"""The channels to people, and on which of them this hub sends."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import Final

from django.conf import settings

from taskhub.lib.apprises import has_apprise


class Channel(StrEnum):
    """A channel that reaches people. The value is stored with a notice."""

    MAIL = "mail"
    SLACK = "slack"
    PUSH = "push"
    APPRISE = "apprise"


@cache
def has_push() -> bool:
    """Whether the extra `push` is installed."""
    return find_spec("pywebpush") is not None


TYPED: Final = (Channel.MAIL, Channel.SLACK, Channel.APPRISE)
"""The channels whose address a person types and confirms."""

_ON: Final[dict[Channel, Callable[[], object]]] = {
    Channel.MAIL: lambda: settings.EMAIL_HOST,
    Channel.SLACK: lambda: settings.TASKHUB_SLACK_BOT_TOKEN and settings.TASKHUB_SLACK_APP_TOKEN,
    Channel.PUSH: lambda: settings.PUBLIC_URL and has_push(),
    Channel.APPRISE: lambda: settings.TASKHUB_APPRISE_URLS and has_apprise(),
}
"""For each channel, a function that is true if the hub has what the channel needs: its settings, and for some an
extra."""


def is_on(channel: Channel) -> bool:
    """Whether this hub sends on the channel."""
    return bool(_ON[channel]())


def channels_on() -> list[Channel]:
    """The channels that this hub sends on."""
    return [channel for channel in Channel if is_on(channel)]
