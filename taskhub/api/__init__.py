"""What comes in over HTTP and is no page: `/mcp`, OAuth, health, metrics.

Bytes are bounded (`guard`), the request has an id (`requests`) and a principal (`auth`) before `endpoint` hands the
message to `protocol`. Nothing here knows a revision.
"""
