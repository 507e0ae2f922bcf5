"""Clients: the owners of tasks, and the tokens that prove which client a request is from.

An auth context identifies a client: tenant, issuer, subject and program. `principals` finds it for a bearer token,
which the hub (`tokens`), its authorization server or an external issuer (`issuers`) has issued. Everything that a
client owns refers to its auth context, and no other client can find out that it exists.
"""
