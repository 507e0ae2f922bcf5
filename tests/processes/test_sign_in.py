"""Public clients sign in to a whole hub through its authorization server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clients import inspector_oauth, sdk_oauth
from tests.support.documents import Documents, served
from tests.support.hub import RunningHub
from tests.support.web import Web, web

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    with served(tmp_path_factory.mktemp("documents")) as found:
        yield found


@pytest.fixture(scope="module")
def signing(hub: RunningHub, documents: Documents) -> Iterator[Web]:
    """A web process that reads documents of this machine too."""
    with web(hub, TASKHUB_OAUTH_LOCAL_DOCUMENTS="True", SSL_CERT_FILE=str(documents.authority)) as running:
        try:
            yield running
        finally:
            print(running.log.read_text())


@pytest.mark.req("AU-01", "AU-02", "AU-04", "AU-07", "AU-12")
async def test_the_python_sdk_signs_in_calls_refreshes_and_is_refused(
    hub: RunningHub, signing: Web, documents: Documents
) -> None:
    [(before,)] = hub.sql("SELECT max(id) FROM event")
    document = documents.publish(redirect_uris=[sdk_oauth.CALLBACK])
    await sdk_oauth.main(f"{signing.base}/mcp", str(signing.hub.data), document, "greet", "name")
    actions = {row[0] for row in hub.sql("SELECT DISTINCT action FROM event WHERE id > %s", [before])}
    assert {"application.added", "consent.given", "consent.refused", "token.issued", "token.refreshed"} <= actions


@pytest.mark.skipif("INSPECTOR" not in os.environ, reason="INSPECTOR names no MCP Inspector")
@pytest.mark.req("AU-04", "AU-12")
async def test_the_inspector_signs_in_and_asks_for_more(signing: Web, documents: Documents) -> None:
    document = documents.publish("/inspector.json", redirect_uris=[inspector_oauth.CALLBACK])
    await inspector_oauth.main(f"{signing.base}/mcp", str(signing.hub.data), document, "greet", "name")
