"""OAuth towards servers on the command line: the options of `manage.py server add` and `edit`, and what `show` says."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass, replace
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandError

from taskhub.cli.mcpjson import text_of
from taskhub.core.errors import TaskHubError
from taskhub.domain.catalogue.sync import SyncedServer
from taskhub.domain.credentials import grants, reads
from taskhub.domain.credentials.records import Access, OAuthSettings, Way
from taskhub.upstream.bearer import fixed
from taskhub.upstream.target import Target

NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class WantedOAuth:
    """The OAuth settings that the options ask for. `settings` is `None` if the server is not to be authorized by
    OAuth."""

    settings: OAuthSettings | None


def add_oauth_arguments(parser: ArgumentParser) -> None:
    """Add the options of OAuth towards a server."""
    ways = [*map(str, Way), NONE]
    parser.add_argument("--oauth", choices=ways, help="how TaskHub is authorized at a server with a URL")
    parser.add_argument("--oauth-issuer", metavar="URL", default="", help="default: the one that the server names")
    parser.add_argument("--oauth-client-id", metavar="ID", default="", help="default: TaskHub registers itself")
    parser.add_argument("--oauth-secret-file", metavar="FILE", help="file with its secret; `-`: standard input")
    parser.add_argument("--oauth-scopes", metavar="SCOPES", default="", help="default: those that the server asks for")


def add_register_argument(parser: ArgumentParser) -> None:
    """Add the option that makes the hub register itself again."""
    parser.add_argument(
        "--oauth-register-anew",
        action="store_true",
        help="if its authorization server does not know TaskHub any more, which registers itself anew when somebody"
        " authorizes the server next",
    )


def oauth_of_options(options: dict[str, Any]) -> WantedOAuth | None:
    """The OAuth settings of the options; `None` if no option of OAuth is given."""
    given = [name for name in ("issuer", "client_id", "secret_file", "scopes") if options[f"oauth_{name}"]]
    way = options["oauth"]
    if way is None or way == NONE:
        if given:
            raise CommandError(f"--oauth-{given[0].replace('_', '-')} needs --oauth client, shared or each.")
        return None if way is None else WantedOAuth(None)
    path = options["oauth_secret_file"]
    secret = None if path is None else text_of(path).strip()
    return WantedOAuth(
        OAuthSettings(Way(way), options["oauth_issuer"], options["oauth_client_id"], secret, options["oauth_scopes"])
    )


def next_step(server_id: int) -> str:
    """Who has to authorize the server before calls are made, and where; empty if nobody has to."""
    oauth = reads.oauth_of(server_id)
    if oauth is None or oauth.way is Way.CLIENT:
        return ""
    page = f"{settings.PUBLIC_URL}/servers/{server_id}/"
    if oauth.way is Way.SHARED:
        return f"An admin has to authorize it, on its page in the console: {page}"
    return f"Each person or client authorizes it when a call first needs that; an admin its lists, on its page: {page}"


def oauth_facts(server_id: int) -> dict[str, Any]:
    """How a server is authorized, and by whom, without secrets; empty if not by OAuth."""
    oauth = reads.oauth_of(server_id)
    if oauth is None:
        return {}
    shown = []
    for grant in reads.grants_of(server_id):
        state = "good" if grant.state == "good" else f"to be authorized again: {grant.problem}"
        nobody = "the lists alone" if oauth.way is Way.EACH else "everyone"
        shown.append(f"{nobody if grant.shared else grant.holder} ({state})")
    return {
        "oauth": str(oauth.way),
        "oauth_issuer": oauth.issuer,
        "oauth_client_id": oauth.client_id,
        "oauth_scopes": oauth.scopes,
        "authorized_for": shown,
    }


def authorized(row: SyncedServer) -> Target:
    """The target of a server. If the server has a grant of its own that is valid, the target has that grant's token."""
    target = Target.of(row)
    if not row.oauth:
        return target
    try:
        return replace(target, bearer=fixed(grants.access(row.id)))
    except TaskHubError:
        return replace(target, bearer=fixed(Access(0, "")))  # the test shows that it has to be authorized
