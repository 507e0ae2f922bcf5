"""The page on which a call is run again with other arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from taskhub.console.access import page
from taskhub.console.changes import Changes, of_arguments
from taskhub.console.forms.edits import EditForm
from taskhub.console.requests import ConsoleRequest
from taskhub.console.verdict_words import verdict_words
from taskhub.control import tasks
from taskhub.core.asking import Asking, asking
from taskhub.core.errors import Invalid, LimitReached, Refused
from taskhub.core.rules import EVERY_ARGUMENT
from taskhub.domain.tasks.edits import MAX_EDITED
from taskhub.domain.tasks.ended import Origin, Rerun, find_origin
from taskhub.lib import jsonx

_ALL: Final = Asking(editable=(EVERY_ARGUMENT,))


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a person is shown before the call runs again with other arguments."""

    rerun: Rerun

    @property
    def differences(self) -> Changes:
        """What differs from the arguments of the earlier call."""
        before = self.rerun.origin
        return of_arguments(before.arguments, self.rerun.arguments, before.tool.definition.get("inputSchema"))

    @property
    def asking(self) -> Asking:
        """What people will read of the approval; empty if none is needed."""
        asked = self.rerun.approval
        return Asking() if asked is None else asking(asked.params)

    @property
    def words(self) -> str:
        """What the rules in force make of the call."""
        verdict = self.rerun.verdict
        if verdict.bypass is not None:
            return "A bypass is in force: it runs, and nobody is asked."
        return verdict_words(verdict, self.rerun.approval)


@require_http_methods(["GET", "HEAD", "POST"])
@page("task.rerun")
def rerun_with(request: ConsoleRequest, public_id: str) -> HttpResponse:
    """Run the call of a task again with other arguments (POST). The first POST shows what differs and what the rules
    say of the call. The second, with the mark of what was shown, runs the call."""
    try:
        origin = find_origin(request.person.tenant_id, public_id)
    except Refused as error:
        messages.error(request, error.message)
        return redirect("task-detail", public_id=public_id)
    if len(jsonx.encode(jsonx.repaired(origin.arguments))) > MAX_EDITED:
        messages.error(request, f"Arguments of more than {MAX_EDITED:,} bytes cannot be edited here.")
        return redirect("task-detail", public_id=public_id)
    posted = request.POST if request.method == "POST" else None
    form = EditForm(_ALL, origin.tool.definition.get("inputSchema"), origin.arguments, posted)
    if posted is None:
        return _drawn(request, origin, form)
    if not form.is_valid():
        return _drawn(request, origin, form, status=422)
    given = form.cleaned_data
    if posted.get("back"):
        return _drawn(request, origin, form)
    try:
        found = tasks.check_rerun(request.caller, public_id, form.arguments)
        form.show(found.mark)
        if given["mark"] != found.mark:
            return _drawn(request, origin, form, Outlook(found))
        new = tasks.rerun_with(request.caller, public_id, form.arguments, mark=given["mark"], reason=given["reason"])
    except (Invalid, Refused, LimitReached) as error:
        form.refuse(error)
        return _drawn(request, origin, form, status=422)
    messages.success(request, "This is the new task. The earlier one is linked below.")
    return redirect("task-detail", public_id=new.public_id)


def _drawn(
    request: ConsoleRequest, origin: Origin, form: EditForm, outlook: Outlook | None = None, *, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {"task": origin.task, "form": form, "outlook": outlook}
    return render(request, "console/rerun_with.html", context, status=status)
