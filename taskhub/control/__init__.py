"""Use cases: one function for each action of a person, shared by the console and the commands.

A view or a command parses the request, calls a function here and shows the result. Each function takes the `Caller`
first, checks that the caller has the permission and may touch the object (it is in their tenant, for one of their
groups, or their own), makes the change through `domain`, and records a refusal in the audit log. Reads for pages go to
`domain` directly, with the caller's tenant id. Actions of MCP clients on their own tasks are in `protocol`, since a
client's token has scopes and no role.
"""
