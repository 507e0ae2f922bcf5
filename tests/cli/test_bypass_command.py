"""`manage.py bypass`: begun, shown and ended from a shell."""

from __future__ import annotations

import pytest
from django.core.management.base import CommandError

from taskhub.domain.clients.principals import default_tenant
from taskhub.domain.rules.bypasses import bypasses
from taskhub.store.models import Event
from tests.cli.shell import run
from tests.factories import make_server

pytestmark = pytest.mark.django_db


def test_it_is_begun_shown_and_ended() -> None:
    with pytest.raises(CommandError, match="No bypass is in force"):
        run("bypass", "show")
    code, said, _ = run("bypass", "start", "30", "--reason", "Outage")
    (begun,) = bypasses(default_tenant().pk)
    told = f"Nobody is asked about calls until {begun.ends_at:%Y-%m-%d %H:%M} UTC. Begun by {begun.begun_by}: "
    assert (code, said.startswith(told)) == (0, True)
    assert run("bypass", "show")[1] == said
    with pytest.raises(CommandError, match="in force already"):
        run("bypass", "start", "30", "--reason", "Again")
    assert run("bypass", "stop") == (0, "The bypass is over: people are asked again.\n", "")
    assert Event.objects.get(action="rules.bypass.ended").door == "cli"
    with pytest.raises(CommandError, match="No bypass is in force"):
        run("bypass", "stop")


def test_it_is_for_one_server_by_name() -> None:
    server = make_server(default_tenant())
    with pytest.raises(CommandError, match="No enabled server is named nowhere"):
        run("bypass", "start", "5", "--reason", "x", "--server", "nowhere")
    assert f"calls of {server.name} until" in run("bypass", "start", "5", "--reason", "x", "--server", server.name)[1]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(CommandError, match="1 to 1,440 minutes"):
        run("bypass", "start", "1441", "--reason", "x")
    with pytest.raises(CommandError, match="Say why"):
        run("bypass", "start", "5", "--reason", " ")
