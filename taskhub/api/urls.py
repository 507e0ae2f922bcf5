"""The URLs of `/mcp`, health checks and metrics. The NinjaAPI has no OpenAPI docs, since `/mcp` is JSON-RPC."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path
from ninja import NinjaAPI

from taskhub.api import health
from taskhub.api.endpoint import router
from taskhub.api.metrics import metrics


class McpAPI(NinjaAPI):
    """A NinjaAPI whose requests share one temporary response. Ninja makes one for each request, which took a twentieth
    of a web process's time, but the operations here return responses of their own and never use it."""

    _spare = HttpResponse()

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """The response that all requests share."""
        return self._spare


mcp_api = McpAPI(title="TaskHub MCP", urls_namespace="mcp", docs_url=None, openapi_url=None)
mcp_api.add_router("", router)

health_urls = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
