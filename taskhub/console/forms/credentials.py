"""The form of OAuth towards a server."""

from __future__ import annotations

from typing import ClassVar

from django import forms

from taskhub.console.forms.base import ConsoleForm, Typed, picked
from taskhub.console.forms.servers import SECRET
from taskhub.core.errors import Invalid
from taskhub.domain.credentials.reads import OAuthRow
from taskhub.domain.credentials.records import MAX_CLIENT_ID, MAX_SCOPES, MAX_SECRET, OAuthSettings, Way
from taskhub.lib.addresses import MAX_ADDRESS

WAYS = (
    ("", "Not by OAuth"),
    (str(Way.CLIENT), "By client credentials, without a person"),
    (str(Way.SHARED), "By an admin, once for all callers"),
    (str(Way.EACH), "By each person or client"),
)


class ServerOAuthForm(ConsoleForm):
    """Sets how the hub is authorized at a server by OAuth."""

    first = "way"
    aliases: ClassVar[dict[str, str]] = {
        "oauth": "way",
        "oauth_issuer": "issuer",
        "oauth_client_id": "client_id",
        "oauth_secret": "secret",
        "oauth_scopes": "scopes",
    }
    way = picked(
        WAYS,
        label="Authorized",
        help_text="With another way, issuer or client, all authorizations so far are dropped.",
    )
    issuer = Typed(
        label="Issuer",
        longest=MAX_ADDRESS,
        look="mono",
        help_text="The address of the authorization server. Empty: the one that the server names.",
    )
    client_id = Typed(
        label="Client id",
        longest=MAX_CLIENT_ID,
        look="mono",
        help_text="Of TaskHub at the authorization server. Empty: TaskHub registers itself there.",
    )
    secret = Typed(
        label="Client secret",
        longest=MAX_SECRET,
        look="mono",
        widget=forms.PasswordInput,
        attrs=SECRET,
        help_text="Stored encrypted and never shown again. Empty: as it is.",
    )
    scopes = Typed(
        label="Scopes",
        longest=MAX_SCOPES,
        look="mono",
        help_text="With blanks in between. Empty: those that the server asks for.",
    )

    @classmethod
    def of(cls, row: OAuthRow | None) -> ServerOAuthForm:
        """The form with the present settings."""
        if row is None:
            return cls()
        return cls(
            initial={
                "way": str(row.way),
                "issuer": row.wanted_issuer,
                "client_id": row.given_client_id,
                "scopes": row.scopes,
            }
        )

    def wanted(self) -> OAuthSettings | None:
        """The settings; `None` if the server is not to be authorized by OAuth. Raises `Invalid` for an unknown way."""
        given = self.cleaned_data
        if not given["way"]:
            return None
        if given["way"] not in [str(way) for way in Way]:
            raise Invalid("Choose one of these ways.", field="oauth")
        return OAuthSettings(
            Way(given["way"]), given["issuer"], given["client_id"], given["secret"] or None, given["scopes"]
        )
