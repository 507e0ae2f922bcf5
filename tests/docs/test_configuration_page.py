"""The page of the configuration as a file: its example is applied, and it names every field."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from taskhub.control.caller import of_shell
from taskhub.control.configuration import apply_configuration
from taskhub.domain.configuration.records import ClientConfig, OAuthConfig, PersonConfig, ServerConfig

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "run" / "configuration.md").read_text()


@pytest.mark.django_db
def test_the_example_is_applied_and_changes_nothing_more() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    looked_up = []

    def lookup(kind: str, name: str) -> str:
        looked_up.append((kind, name))
        return "s3cret"

    applied = apply_configuration(of_shell(), example, lookup=lookup)
    assert looked_up == [("env", "OPS_TOKEN"), ("file", "/run/secrets/ops_key")]
    assert len(applied.changes) == 6
    assert apply_configuration(of_shell(), example, lookup=lookup, prune=True).changes == ()


@pytest.mark.parametrize("kind", [ServerConfig, OAuthConfig, PersonConfig, ClientConfig])
def test_every_field_is_named(kind: type) -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert [part.name for part in fields(kind) if part.name not in named] == []
