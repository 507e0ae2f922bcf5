"""`AU-*`: who may call, on every wire."""

from __future__ import annotations

from typing import Final

from tests.protocol.sources import AUTH26, REGISTER26, SECURITY25, Rule, rules

TOKEN_RULES: Final[dict[str, Rule]] = {
    **rules(
        AUTH26,
        {
            "AU-01": "The metadata of the protected resource (RFC 9728) names it and its authorization servers.",
            "AU-02": "The metadata is found by the challenge of a 401 and at both well-known paths.",
            "AU-03": "A missing, invalid or expired token is 401 with a challenge that says which, and where to go.",
            "AU-04": "A token with too little scope is 403 with the scopes that are needed.",
            "AU-05": "A malformed authorization header is 400.",
            "AU-06": "The token comes in the `Authorization` header of every request, and never in the address.",
            "AU-07": (
                "A token counts only if it was issued for this server: its issuer, signature, time and audience are "
                "checked."
            ),
            "AU-08": "The client's token goes to no other server, and one that was meant for another is not taken.",
            "AU-09": "The address of the resource is compared in its canonical form.",
            "AU-10": "The challenge names all scopes of the operation, and a broader scope satisfies it.",
            "AU-11": "`offline_access` stands in no challenge and in no metadata.",
            "AU-14": "A task belongs to issuer and subject, so that a renewed token still reaches it.",
            "AU-15": "401 and 403 come before the checks of the protocol and before any stream.",
            "AU-16": "A stream ends when its token does.",
        },
    ),
    **rules(
        REGISTER26,
        {
            "AU-12": "Clients register with the authorization server; the resource server only has right metadata.",
        },
    ),
    **rules(
        SECURITY25,
        {
            "AU-13": (
                "A session is no authentication: the token is checked each time, and somebody else's session is 404."
            ),
            "AU-17": "The console knows its people by cookie and CSRF token; `/mcp` knows bearer tokens alone.",
        },
    ),
}
