"""The console's URLs. Names are `thing-action`."""

from __future__ import annotations

from django.urls import path

from taskhub.console.views import inbox, overview, tasks

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
]
