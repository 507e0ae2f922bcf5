"""The API's URLs: `/mcp` and the health checks; one NinjaAPI, no docs of its own for JSON-RPC."""

from __future__ import annotations

from django.urls import path
from ninja import NinjaAPI

from taskhub.api import health
from taskhub.api.endpoint import router

mcp_api = NinjaAPI(title="TaskHub MCP", urls_namespace="mcp", docs_url=None, openapi_url=None)
mcp_api.add_router("", router)

health_urls = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
