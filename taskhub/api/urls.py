"""The API's URLs: `/mcp` and the health checks; one NinjaAPI, no docs of its own for JSON-RPC."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path
from ninja import NinjaAPI

from taskhub.api import health
from taskhub.api.endpoint import router
from taskhub.api.metrics import metrics


class McpAPI(NinjaAPI):
    """Ninja builds a temporary response for each request, which took a twentieth of the web process's time. Our
    operations return responses of their own and never use it, so all requests share one."""

    _spare = HttpResponse()

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """The one that is the same for all."""
        return self._spare


mcp_api = McpAPI(title="TaskHub MCP", urls_namespace="mcp", docs_url=None, openapi_url=None)
mcp_api.add_router("", router)

health_urls = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
