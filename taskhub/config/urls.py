"""Every URL of TaskHub."""

from __future__ import annotations

from django.urls import include, path

from taskhub.api.urls import health_urls, mcp_api

urlpatterns = [
    path("mcp", mcp_api.urls),
    *health_urls,
    path("accounts/", include("allauth.account.urls")),
    path("", include("taskhub.console.urls")),
]

handler400 = "taskhub.console.views.errors.bad_request"
handler403 = "taskhub.console.views.errors.forbidden"
handler404 = "taskhub.console.views.errors.not_found"
handler500 = "taskhub.console.views.errors.server_error"
