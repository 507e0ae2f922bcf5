"""The page on which a person calls a tool: its arguments, then what the rules say of the call, then the call."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from taskhub.console import content
from taskhub.console.access import page
from taskhub.console.forms.tries import TryForm, only_as_json
from taskhub.console.requests import ConsoleRequest
from taskhub.console.verdict_words import called_words
from taskhub.console.views.servers import tool_row
from taskhub.control import tries
from taskhub.control.tries import Try
from taskhub.core.errors import Invalid, KeyReused, LimitReached, NotFound, Refused
from taskhub.domain.catalogue.reads import ToolRow


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a person is shown before the call is made."""

    found: Try

    @property
    def rows(self) -> content.Rows:
        """The arguments as they would be sent."""
        return content.folded_rows(content.rows(self.found.arguments, self.found.tool.definition.get("inputSchema")))

    @property
    def words(self) -> str:
        """What the rules in force make of the call."""
        return called_words(self.found.called)


@page("task.rerun")
@require_http_methods(["GET", "HEAD", "POST"])
def tool_try(request: ConsoleRequest, pk: int, tool: int) -> HttpResponse:
    """Call a tool (POST). The first POST shows what the rules say of the call. The second, with the mark of what was
    shown, makes the call and leads to its task. With the parameter `json`, the arguments are typed as JSON."""
    row = tool_row(request, pk, tool)
    try:
        schema = tries.tool_to_try(request.caller, tool).definition.get("inputSchema")
    except NotFound:
        return _drawn(request, row, None, status=200 if request.method in ("GET", "HEAD") else 409)
    posted = request.POST if request.method == "POST" else None
    form = TryForm(schema, posted, as_json="json" in request.GET or only_as_json(schema))
    if posted is None or posted.get("back"):
        return _drawn(request, row, form)
    if not form.is_valid():
        return _drawn(request, row, form, status=422)
    given = form.cleaned_data
    try:
        found = tries.check_try(request.caller, tool, form.arguments)
        if given["mark"] != found.mark or not given["once"]:
            form.show(found.mark)
            # A call that was shown before keeps the name in `once`: a button that was pressed twice may have made it
            # already.
            form.show_once(given["once"] if given["mark"] else secrets.token_urlsafe(24))
            return _drawn(request, row, form, Outlook(found))
        made = tries.try_tool(
            request.caller, tool, form.arguments, mark=given["mark"], once=given["once"], reason=given["reason"]
        )
    except (Invalid, Refused, KeyReused, LimitReached) as error:
        form.refuse(error)
        return _drawn(request, row, form, status=422)
    if made.existed:
        messages.info(request, "This call was made already: this is its task.")
    else:
        messages.success(request, f"{row.exposed_name} is called. This page follows the call.")
    return redirect("task-detail", public_id=made.task.public_id)


def _drawn(
    request: ConsoleRequest, tool: ToolRow, form: TryForm | None, outlook: Outlook | None = None, *, status: int = 200
) -> HttpResponse:
    only_json = only_as_json(tool.definition.get("inputSchema"))
    context: dict[str, Any] = {"tool": tool, "form": form, "outlook": outlook, "only_json": only_json}
    return render(request, "console/tool_try.html", context, status=status)
