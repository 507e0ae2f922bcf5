"""A call that a person makes in the console is made once, however often it is sent at the same time."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from taskhub.control import tries
from taskhub.control.caller import of_person
from taskhub.core.states import Door, Role
from taskhub.store.models import AuthContext, Task
from tests.factories import make_person, make_server, make_tenant, make_tool

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_presses_at_once_make_one_task() -> None:
    tenant = make_tenant()
    tool = make_tool(make_server(tenant), "echo")
    caller = of_person(make_person(Role.OPERATOR, tenant), door=Door.WEB)
    mark = tries.check_try(caller, tool.id, {"text": "hi"}).mark
    start, made = threading.Barrier(2), []

    def press() -> None:
        try:
            start.wait(30)
            made.append(tries.try_tool(caller, tool.id, {"text": "hi"}, mark=mark, once="x" * 22))
        finally:
            connection.close()

    pressing = [threading.Thread(target=press) for _ in range(2)]
    for one in pressing:
        one.start()
    for one in pressing:
        one.join(60)
    assert sorted(one.existed for one in made) == [False, True]
    assert len({one.task.public_id for one in made}) == 1
    assert Task.objects.filter(tenant=tenant).count() == 1
    assert AuthContext.objects.filter(tenant=tenant).count() == 1
