"""Permits: calls that were approved for clients that make them themselves, without the hub.

A client asks by `/api/v1/approvals`. If a rule allows the call, the client gets a permit at once. If people are asked,
the request is a task of the revision `approvals`, which is only decided and never run; approving it issues the permit
(`functions.sql`). A permit is signed when its client reads it (`signatures`) and redeemed once (`writes`). A trigger of
the table enforces that it is redeemed only once, and before it expires.

Not here: who decides (`rules`, `questions`), and the requests themselves (`protocol.approvals`, `api.approvals`).
"""
