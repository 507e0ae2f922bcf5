"""OAuth towards servers: how the hub gets the access token that it sends with a call.

A server with OAuth has one of three ways. `client`: the hub itself, by client credentials. `shared`: an admin
authorizes once for all callers. `each`: every person, and every client that acts for no person, has a grant of their
own, and is asked for it when a call first needs it; a further grant, which belongs to nobody, is used only to read the
server's lists.

`discovery` finds the authorization server, `tokens` talks to it, `grants` stores and refreshes what it issues, `flow`
sends people to it and takes them back. Secrets are stored encrypted, and no event, error or log has them.
"""
