"""Clients: who owns a task, and how a request proves which client it is from.

An auth context identifies a client: tenant, issuer, subject, program. It comes from a token of ours (`tokens`), of an
outside issuer (`issuers`) or of our authorization server; `principals` finds it for a token. Everything that a client
owns refers to it, and no other client can tell that it exists.
"""
