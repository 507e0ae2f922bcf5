"""The channels to people in words, as their pages say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskhub.domain.notices.channels import Channel


@dataclass(frozen=True, slots=True)
class Words:
    """A channel in words. `off` is said on a hub that does not send on the channel. `label`, `hint` and `kind` (its
    HTML type) are of the input for the address, and `saved` is the word on the button that saves the address."""

    name: str
    message: str
    icon: str
    off: str
    label: str
    hint: str
    saved: str
    kind: str = "text"


WORDS: Final[dict[Channel, Words]] = {
    Channel.MAIL: Words(
        name="Mail",
        message="mail",
        icon="envelope",
        off="This hub sends no mails. An administrator turns them on with TASKHUB_SMTP_URL.",
        label="Address",
        hint="A new one gets a mail with a link that confirms it. Empty: no mails.",
        saved="address",
        kind="email",
    ),
    Channel.SLACK: Words(
        name="Slack",
        message="direct message",
        icon="chat-bubble-left",
        off="This hub has no Slack. An administrator connects it with TASKHUB_SLACK_BOT_TOKEN.",
        label="Slack account",
        hint="Your e-mail address in Slack, or your member ID (in your profile there, under the three dots). A new one"
        " gets a direct message with a link that confirms it. Empty: nothing in Slack.",
        saved="Slack account",
    ),
    Channel.PUSH: Words(
        name="Browsers",
        message="notification",
        icon="bell",
        off="This hub notifies no browsers. An administrator turns that on with PUBLIC_URL and the extra push.",
        label="",
        hint="",
        saved="",
    ),
    Channel.APPRISE: Words(
        name="Other services",
        message="message",
        icon="paper-airplane",
        off="This hub reaches no other services, such as ntfy or Telegram. An administrator names them with"
        " TASKHUB_APPRISE_URLS, and installs the extra apprise.",
        label="Service and your address there",
        hint="The name of the service, a colon, and your own part, such as a topic, a chat ID or a user key. A new one"
        " gets a message with a link that confirms it. It is stored encrypted, and shown with its beginning alone."
        " Empty: nothing there.",
        saved="service",
    ),
}
