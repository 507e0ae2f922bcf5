"""Use cases: one function for each action of a person, shared by the console and the commands.

A view or a command parses the request, calls a function here and shows the result. The first argument of each function
is the `Caller`. The function checks that the caller has the permission and may change the object (which is in their
tenant, for one of their groups, or their own), makes the change through `domain`, and records a refusal in the audit
log. Pages read from `domain` directly, with the caller's tenant id. What MCP clients do with their own tasks is in
`protocol`, because a client's token has scopes and no role.
"""
