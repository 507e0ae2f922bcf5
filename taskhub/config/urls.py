"""Every URL of TaskHub."""

from __future__ import annotations

from allauth.account import views as account
from django.urls import include, path

from taskhub.api import oauth
from taskhub.api.approvals import rest_api
from taskhub.api.urls import health_urls, mcp_api
from taskhub.console.views import factors
from taskhub.console.views.consent import authorize
from taskhub.console.views.sign_in import login
from taskhub.domain.credentials.flow import DOCUMENT
from taskhub.domain.oauth.documents import AUTHORIZE_PATH

# django-oauth-toolkit reverses its endpoints by these names. None of its other pages and endpoints is served.
oauth_urls = [
    path(oauth.SERVER_METADATA.lstrip("/"), oauth.server_metadata, name="oauth-server-metadata"),
    path(oauth.RESOURCE_METADATA.lstrip("/"), oauth.resource_metadata, name="oauth-resource-metadata"),
    path(f"{oauth.RESOURCE_METADATA.lstrip('/')}/mcp", oauth.resource_metadata, name="oauth-resource-metadata-path"),
    path(AUTHORIZE_PATH.lstrip("/"), authorize, name="authorize"),
    path("oauth/token", oauth.token, name="token"),
    path("oauth/revoke", oauth.revoke, name="revoke-token"),
    path("oauth/register", oauth.registration, name="dcr-register"),
]

urlpatterns = [
    path("mcp", mcp_api.urls),
    path("api/v1/", rest_api.urls),
    *health_urls,
    path("", include((oauth_urls, "oauth2_provider"))),
    path(DOCUMENT.lstrip("/"), oauth.client_document, name="oauth-client-document"),
    # The only pages of allauth that are served: those that need neither mail nor sign-up.
    path("accounts/login/", login, name="account_login"),
    path("accounts/login/code/", factors.sign_in, name="mfa_authenticate"),
    path("accounts/logout/", account.logout, name="account_logout"),
    path("accounts/password/change/", account.password_change, name="account_change_password"),
    path("accounts/reauthenticate/", account.reauthenticate, name="account_reauthenticate"),
    path("", include("taskhub.console.urls")),
]

handler400 = "taskhub.console.views.errors.bad_request"
handler403 = "taskhub.console.views.errors.forbidden"
handler404 = "taskhub.console.views.errors.not_found"
handler500 = "taskhub.console.views.errors.server_error"
