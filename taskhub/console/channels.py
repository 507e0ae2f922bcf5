"""The channels to people in words, as their pages say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskhub.domain.notices.channels import Channel


@dataclass(frozen=True, slots=True)
class Words:
    """A channel in words. `off`: what is said where this hub does not send on it; `label` and `hint`: of the input for
    the address; `kind`: that of the input."""

    name: str
    message: str
    icon: str
    off: str
    label: str
    hint: str
    kind: str = "text"


WORDS: Final[dict[Channel, Words]] = {
    Channel.MAIL: Words(
        name="Mail",
        message="mail",
        icon="envelope",
        off="This hub sends no mails. An administrator turns them on with TASKHUB_SMTP_URL.",
        label="Address",
        hint="A new one gets a mail with a link that confirms it. Empty: no mails.",
        kind="email",
    ),
}
