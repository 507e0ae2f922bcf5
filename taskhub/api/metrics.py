"""`/metrics`: the counts of this web process, and those of all processes from the database."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from taskhub.api.away import later
from taskhub.core.timings import BOUNDS, ServerTiming, TimingKind
from taskhub.domain.health.checks import backlog
from taskhub.domain.tasks.timings import server_timings
from taskhub.protocol import errors
from taskhub.store.call import LACKING, lacking

disable_created_metrics()  # type: ignore[no-untyped-call] # else each counter and histogram has a second series, `_created`

_REGISTRY: Final = CollectorRegistry()
_SERVED: Final = Histogram(
    "taskhub_request_seconds",
    "How long answers to clients took, in this process; of a stream, until it began",
    ("method", "revision"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=_REGISTRY,
)
_series: Final[dict[tuple[str, str], Histogram]] = {}
"""The series of `_SERVED` by method and revision, kept because `labels` takes a lock each time."""
_FAILED: Final = Counter(
    "taskhub_request_errors", "Answers to clients that were errors, in this process", ("code",), registry=_REGISTRY
)
_ENDS: Final = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]


def served(method: str, version: str, seconds: float) -> None:
    """Count an answered request; used as `protocol.hub.Hub.served`."""
    series = _series.get((method, version))
    if series is None:
        series = _series[method, version] = _SERVED.labels(method, version)
    series.observe(seconds)


def failed(code: int) -> None:
    """Count an answer that is an error; used as `protocol.hub.Hub.failed`. Codes that only servers use count as
    `other`."""
    _FAILED.labels(str(code) if code in errors.NAMED else "other").inc()


Gauge = tuple[str, str, Mapping[str, str], Callable[[], float]]
"""A gauge: name, help, labels, and the function that returns the value at each scrape."""


class _OfProcess(Collector):
    """Collects the counters and gauges of this process."""

    gauges: Iterable[Gauge] = ()

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for name, about, labels, look in self.gauges:
            family = families.setdefault(name, GaugeMetricFamily(name, about, labels=[*labels]))
            family.add_metric([*labels.values()], look())
        return [*_REGISTRY.collect(), *families.values()]


_of_process: Final = _OfProcess()


def show(gauges: Iterable[Gauge]) -> None:
    """Set the gauges of this process, replacing any earlier ones."""
    _of_process.gauges = tuple(gauges)


class _Stored(Collector):
    """Collects metrics from the database at each scrape, which are the same in all processes."""

    def collect(self) -> Iterable[Metric]:
        for name, about, rows in backlog():
            family = GaugeMetricFamily(name, about, labels=[*rows[0][0]] if rows else [])
            for labels, value in rows:
                family.add_metric([*labels.values()], value)
            yield family


class _Timed(Collector):
    """Collects histograms of how long calls waited and ran, by server. Only for requests with `METRICS_TOKEN`, because
    they name servers."""

    def collect(self) -> Iterable[Metric]:
        waits = HistogramMetricFamily(
            "taskhub_wait_seconds", "How long calls waited for a worker, from when they could run", labels=["server"]
        )
        calls = HistogramMetricFamily(
            "taskhub_call_seconds",
            "How long calls of servers took, waiting for people in the middle included",
            labels=["server", "outcome"],
        )
        for timing in server_timings():
            if timing.kind is TimingKind.WAITED:
                waits.add_metric([timing.server], _cumulated(timing), timing.seconds)
            else:
                calls.add_metric([timing.server, timing.kind], _cumulated(timing), timing.seconds)
        return (waits, calls)


def _cumulated(timing: ServerTiming) -> list[tuple[str, float]]:
    return list(zip(_ENDS, map(float, accumulate(timing.counts)), strict=True))


class _All(Collector):
    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        for collector in self._collectors:
            yield from collector.collect()


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Metrics in the text format of Prometheus. If `METRICS_TOKEN` is set, a request needs it (else 401) and also gets
    the metrics that name servers. If it is not set, no token is needed, and these metrics are left out. 503 if the
    database cannot be read."""
    collectors: list[Collector] = [_Stored(), _of_process]
    if settings.METRICS_TOKEN:
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {settings.METRICS_TOKEN}".encode()):
            return HttpResponse(
                "Send METRICS_TOKEN as a bearer token\n",
                status=401,
                content_type="text/plain",
                headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
            )
        collectors.append(_Timed())
    try:
        found = generate_latest(_All(*collectors))
    except Exception as error:
        if not lacking(error):
            raise  # answered like an error on any other path
        return later(request, HttpResponse(f"{LACKING}\n", status=503, content_type="text/plain"), LACKING)
    return HttpResponse(found, content_type=CONTENT_TYPE_PLAIN_0_0_4)
