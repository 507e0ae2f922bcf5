"""Every URL of TaskHub."""

from __future__ import annotations

from allauth.account import views as account
from django.urls import include, path

from taskhub.api.urls import health_urls, mcp_api

urlpatterns = [
    path("mcp", mcp_api.urls),
    *health_urls,
    # Of allauth's pages only those that work without mail and without sign-up.
    path("accounts/login/", account.login, name="account_login"),
    path("accounts/logout/", account.logout, name="account_logout"),
    path("accounts/password/change/", account.password_change, name="account_change_password"),
    path("accounts/reauthenticate/", account.reauthenticate, name="account_reauthenticate"),
    path("", include("taskhub.console.urls")),
]

handler400 = "taskhub.console.views.errors.bad_request"
handler403 = "taskhub.console.views.errors.forbidden"
handler404 = "taskhub.console.views.errors.not_found"
handler500 = "taskhub.console.views.errors.server_error"
