"""Clients: whose tasks they are, and how a request proves to be theirs.

An auth context is who calls: tenant, issuer, subject, program. It comes from a token of ours (`tokens`), of an outside
issuer (`issuers`) or of our authorization server; `principals` finds it for a token. Everything that a client owns
hangs on it, and nobody else learns that it exists.
"""
