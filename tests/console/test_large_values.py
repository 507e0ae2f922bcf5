"""Results and arguments that are too large for a page: the beginning on it, and the whole as a file."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from taskhub.core.states import Role
from tests.console.conftest import Login
from tests.factories import make_context, make_person, make_server, make_task, make_tenant, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def context(tenant: Any) -> Any:
    return make_context(tenant, "agent-a")


@pytest.fixture
def server(tenant: Any) -> Any:
    return make_server(tenant, "demo")


@pytest.fixture
def operator(tenant: Any, sign_in: Login) -> Any:
    return sign_in(make_person(Role.OPERATOR, tenant))


def test_a_large_result_is_folded_and_can_be_had_whole(operator: Any, context: Any, server: Any) -> None:
    text = "".join(f"line {number} of it <b>\n" for number in range(250_000))
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"lines": ["x" * 1_000] * 3_000}}
    task = make_task(context, make_tool(server), state="finished", result=result)
    for view in ("summary", "wire"):
        page = operator.get(f"/tasks/{task.public_id}/?view={view}")
        assert len(page.content) < 150_000
        shown = page.content.decode()
        assert "Only the beginning is shown here." in shown
        address = re.findall(r'<a href="([^"]+)" download>Download the whole result</a>', shown)
        assert address == [f"/tasks/{task.public_id}/result"]
    assert "line 199 of it" in operator.get(f"/tasks/{task.public_id}/").content.decode()
    answer = operator.get(address[0])
    assert answer.json() == result
    assert answer["Content-Type"] == "application/json"
    assert answer["Content-Disposition"] == f'attachment; filename="task-{task.public_id[:8]}-result.json"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer["Cache-Control"]


def test_large_arguments_are_folded_and_can_be_had_whole(operator: Any, context: Any, server: Any) -> None:
    arguments = {"text": "grüezi " * 100_000, **{f"name {number}": number for number in range(300)}}
    task = make_task(context, make_tool(server), arguments=arguments)
    page = operator.get(f"/tasks/{task.public_id}/")
    assert len(page.content) < 150_000
    download = f'<a href="/tasks/{task.public_id}/arguments" download>Download the whole arguments</a>'
    assert download in page.content.decode()
    assert json.loads(operator.get(f"/tasks/{task.public_id}/arguments").content) == arguments


def test_many_blocks_and_images_are_bounded_together(operator: Any, context: Any, server: Any) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA" * 300_000}
    result = {"content": [image, image, *[{"type": "text", "text": "short"}] * 5_000]}
    task = make_task(context, make_tool(server), state="finished", result=result)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert (page.count("<img class="), page.count('class="block-text"')) == (1, 98)
    assert "Download the whole result" in page


def test_what_fits_is_shown_whole_without_a_download(operator: Any, context: Any, server: Any) -> None:
    text = "\n".join(f"line {number}" for number in range(150))
    result = {"content": [{"type": "text", "text": text}]}
    task = make_task(context, make_tool(server), state="finished", result=result)
    page = operator.get(f"/tasks/{task.public_id}/").content.decode()
    assert "line 149" in page
    assert "Download" not in page


@pytest.mark.parametrize("what", ["result", "arguments"])
def test_a_download_is_for_those_who_may_see_the_page(operator: Any, context: Any, server: Any, what: str) -> None:
    task = make_task(context, make_tool(server), state="finished")
    theirs = make_task(make_context(make_tenant("elsewhere"), "other"), state="finished")
    assert operator.get(f"/tasks/{task.public_id}/{what}").status_code == 200
    assert operator.get(f"/tasks/{theirs.public_id}/{what}").status_code == 404
    assert operator.get(f"/tasks/nonsense/{what}").status_code == 404
    queued = make_task(context, make_tool(server, "later"))
    assert operator.get(f"/tasks/{queued.public_id}/result").status_code == 404
