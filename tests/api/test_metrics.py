"""Figures for scrapers: what there is, what it counts, and who may read what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until
from tests.support.web import Web, web

pytestmark = pytest.mark.processes

TOKEN = "scrape-me-and-nobody-else"


@pytest.fixture(scope="module")
def asked(hub: RunningHub) -> Iterator[Web]:
    """A web process that wants a token, of a hub that sends mails."""
    mails = {"TASKHUB_SMTP_URL": "smtp+plain://127.0.0.1:9", "PUBLIC_URL": "http://hub.example"}
    with web(hub, METRICS_TOKEN=TOKEN, **mails) as running:
        yield running


def get(running: RunningHub | Web, token: str = "") -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx2.get(f"{running.base}/metrics", headers=headers, trust_env=False)


def scraped(running: RunningHub | Web, token: str = "") -> dict[str, Metric]:
    answer = get(running, token)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    samples = [sample for family in families.values() for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def test_what_there_is_stands_in_the_docs(asked: Web) -> None:
    with Client(asked.base, asked.hub.tokens["agent-a"]) as client:
        client.tool("greet", {"name": "x"})
        client.call("tasks/get", {"taskId": "none"}, caps=TASKS)
    wait_until(lambda: scraped(asked, TOKEN)["taskhub_call_seconds"].samples, "the worker's counts", 20)
    page = (Path(__file__).parents[2] / "docs/run/operate.md").read_text()
    documented = {
        name: sorted(filter(None, labels.split(",")))
        for name, labels in re.findall(r"^\| `(taskhub_\w+)(?:{([\w,]+)})?` ", page, re.MULTILINE)
    }
    found = {name: sorted(family.samples[0].labels.keys() - {"le"}) for name, family in scraped(asked, TOKEN).items()}
    assert documented == found


def test_the_alert_rules_ask_for_what_there_is(asked: Web) -> None:
    rules = (Path(__file__).parents[2] / "docs/run/alerts.yml").read_text()
    named = set(
        re.findall(
            r"taskhub_\w+", "".join(re.findall(r"expr: (?:[|].*?(?=for:)|.*?$)", rules, re.DOTALL | re.MULTILINE))
        )
    )
    assert len(named) > 5
    with Client(asked.base, asked.hub.tokens["agent-a"]) as client:
        client.tool("greet", {"name": "x"})
        client.call("tasks/get", {"taskId": "none"}, caps=TASKS)
    wait_until(lambda: scraped(asked, TOKEN)["taskhub_call_seconds"].samples, "the worker's counts", 20)
    assert named - {sample.name for family in scraped(asked, TOKEN).values() for sample in family.samples} == set()


def test_who_brings_no_token_learns_nothing_where_one_is_asked_for(asked: Web) -> None:
    for token in ("", "wrong", TOKEN[:-1], f"{TOKEN}x", asked.hub.tokens["agent-a"]):
        answer = get(asked, token)
        assert (answer.status_code, answer.text) == (401, "Send METRICS_TOKEN as a bearer token\n")
        assert answer.headers["www-authenticate"] == 'Bearer realm="metrics"'
    answer = httpx2.get(f"{asked.base}/metrics", headers={b"authorization": b"Bearer \xff\xfe"}, trust_env=False)
    assert answer.status_code == 401


def test_without_one_nobody_learns_the_names_of_servers(hub: RunningHub, alice: Client) -> None:
    alice.tool("greet", {"name": "x"})
    names = [name for (name,) in hub.sql("SELECT name FROM server")]
    assert names
    answer = get(hub).text
    assert not [name for name in names if f'"{name}"' in answer]
    assert "taskhub_call_seconds" not in answer


def test_calls_and_waits_are_counted_by_server(asked: Web) -> None:
    def counts() -> tuple[float, float]:
        found = scraped(asked, TOKEN)
        return (
            value(found, "taskhub_call_seconds_count", server="fixture-server", outcome="finished"),
            value(found, "taskhub_wait_seconds_count", server="fixture-server"),
        )

    with Client(asked.base, asked.hub.tokens["agent-a"]) as client:
        before = counts()
        for _ in range(3):
            assert client.tool("greet", {"name": "x"}).status == 200
    wait_until(lambda: counts()[0] >= before[0] + 3 and counts()[1] >= before[1] + 3, "the worker's counts", 20)
    found = scraped(asked, TOKEN)["taskhub_call_seconds"]
    series = {
        sample.labels["le"]: sample.value
        for sample in found.samples
        if sample.name.endswith("_bucket")
        and sample.labels["server"] == "fixture-server"
        and sample.labels["outcome"] == "finished"
    }
    assert [*series.values()] == sorted(series.values()), "cumulated"
    finished = {"server": "fixture-server", "outcome": "finished"}
    assert series["+Inf"] == value({"": found}, "taskhub_call_seconds_count", **finished)


def test_answers_and_errors_are_counted_by_method_and_code(asked: Web) -> None:
    with Client(asked.base, asked.hub.tokens["agent-b"]) as client:
        before = scraped(asked, TOKEN)
        client.call("server/discover")
        client.call("tasks/get", {"taskId": "none"}, caps=TASKS)
        client.call("no/such/method")
        after = scraped(asked, TOKEN)
    served = {"method": "server/discover", "revision": "2026-07-28"}
    assert (
        value(after, "taskhub_request_seconds_count", **served)
        - value(before, "taskhub_request_seconds_count", **served)
        == 1
    )
    for code in ("-32602", "-32601"):
        name = "taskhub_request_errors_total"
        assert value(after, name, code=code) - value(before, name, code=code) == 1
    assert "no/such/method" not in get(asked, TOKEN).text


def test_streams_and_lanes_are_told(asked: Web) -> None:
    with Client(asked.base, asked.hub.tokens["agent-a"]) as client:
        task = client.create("slow_compute", {"seconds": 20})
        before = value(scraped(asked, TOKEN), "taskhub_streams")
        with client.stream("subscriptions/listen", {"notifications": {"taskIds": [task]}}, caps=TASKS):
            wait_until(lambda: value(scraped(asked, TOKEN), "taskhub_streams") == before + 1, "the stream")
        wait_until(lambda: value(scraped(asked, TOKEN), "taskhub_streams") == before, "its end")
        client.call("tasks/cancel", {"taskId": task})
    found = scraped(asked, TOKEN)
    assert value(found, "taskhub_lanes", lanes="mcp") == 4
    assert value(found, "taskhub_lanes_busy", lanes="pages") == 1, "the one that looks"
    assert value(found, "taskhub_lanes_waiting", lanes="mcp") == 0
    assert 0 < value(found, "taskhub_database_connections") < value(found, "taskhub_database_connections_most")
    assert 0 <= value(found, "taskhub_seal_lag_seconds") < 60
