"""Use cases: what people do to TaskHub, one function each, whichever way they came in.

Console, commands and REST parse a request, call a function here, and show what came of it. Each function takes the
`Caller` first, checks the permission and the reach (its tenant, a person's groups, what is their own), changes
something through `domain`, and puts a refusal on record. What people only look at is read from `domain` directly, with
the caller's tenant. What MCP clients do to their own tasks is in `protocol`: their tokens have scopes and no role.
"""
