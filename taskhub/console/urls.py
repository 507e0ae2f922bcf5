"""The console's URLs. Names are `thing-action`."""

from __future__ import annotations

from django.urls import path

from taskhub.console.views import (
    account,
    applications,
    audit,
    clients,
    inbox,
    overview,
    servers,
    settings,
    tasks,
    workers,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("tasks/", tasks.task_list, name="task-list"),
    path("tasks/<str:public_id>/", tasks.task_detail, name="task-detail"),
    path("tasks/<str:public_id>/cancel", tasks.task_cancel, name="task-cancel"),
    path("tasks/<str:public_id>/rerun", tasks.task_rerun, name="task-rerun"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/count", inbox.inbox_count, name="inbox-count"),
    path("inbox/<int:pk>/", inbox.inbox, name="inbox-question"),
    path("inbox/<int:pk>/state", inbox.question_state, name="inbox-state"),
    path("inbox/<int:pk>/answer", inbox.answer, name="inbox-answer"),
    path("inbox/<int:pk>/decide", inbox.decide, name="inbox-decide"),
    path("accounts/", account.account, name="account"),
    path("accounts/allowed/<int:pk>/revoke", account.allowed_revoke, name="allowed-revoke"),
    path("audit/", audit.audit_list, name="audit-list"),
    path("audit/export", audit.audit_export, name="audit-export"),
    path("clients/", clients.client_list, name="client-list"),
    path("clients/issue", clients.token_issue, name="token-issue"),
    path("clients/applications/", applications.application_list, name="application-list"),
    path("clients/applications/add", applications.application_add, name="application-add"),
    path("clients/applications/<int:pk>/", applications.application_detail, name="application-detail"),
    path("clients/applications/<int:pk>/change", applications.application_change, name="application-change"),
    path("clients/applications/<int:pk>/secret", applications.application_secret, name="application-secret"),
    path("clients/applications/<int:pk>/toggle", applications.application_toggle, name="application-toggle"),
    path("clients/applications/<int:pk>/remove", applications.application_remove, name="application-remove"),
    path(
        "clients/applications/<int:pk>/consents/<int:consent>/revoke",
        applications.consent_revoke,
        name="consent-revoke",
    ),
    path("clients/<int:pk>/", clients.client_detail, name="client-detail"),
    path("clients/<int:pk>/toggle", clients.client_toggle, name="client-toggle"),
    path("clients/<int:pk>/tokens/<int:token>/revoke", clients.token_revoke, name="token-revoke"),
    path("servers/", servers.server_list, name="server-list"),
    path("servers/add", servers.server_add, name="server-add"),
    path("servers/<int:pk>/", servers.server_detail, name="server-detail"),
    path("servers/<int:pk>/refresh", servers.server_refresh, name="server-refresh"),
    path("servers/<int:pk>/token", servers.server_token, name="server-token"),
    path("servers/<int:pk>/toggle", servers.server_toggle, name="server-toggle"),
    path("servers/<int:pk>/tools/<int:tool>/policy", servers.tool_policy, name="tool-policy"),
    path("workers/", workers.worker_list, name="worker-list"),
    path("settings/", settings.settings_page, name="settings"),
    path("settings/people/add", settings.person_add, name="person-add"),
    path("settings/people/<int:pk>/role", settings.person_role, name="person-role"),
]
