"""Apprise, which is an extra: makes a service of a URL, and sends by it. Nothing is read from or written to disk, no
redirect is followed, and what Apprise logs, which may have addresses and tokens, goes nowhere."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 10.0
"""How long a service may take to be connected to, and to say the next piece of its answer."""
_STATUS: Final = re.compile(r"\berror=([1-5]\d\d)\b")
_heard = threading.local()


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of a message. `status` is that of the last HTTP answer which refused it, `None` without one."""

    ok: bool
    status: int | None = None


class _Hearing(logging.Handler):
    """Keeps the status of refusals, for the thread that sends, and nothing else."""

    def emit(self, record: logging.LogRecord) -> None:
        if found := _STATUS.search(record.getMessage()):
            _heard.status = int(found[1])


@cache
def has_apprise() -> bool:
    """Whether the extra `apprise` is installed."""
    return find_spec("apprise") is not None


def service_of(url: str) -> Any | None:
    """The service of a URL; `None` if Apprise knows no such, or the URL lacks something."""
    from apprise import Apprise, OverflowMode

    _listen()
    service: Any = Apprise.instantiate(url, asset=_asset(), suppress_exceptions=True)
    if service is None:
        return None
    service.socket_connect_timeout, service.socket_read_timeout = CONNECT_SECONDS, READ_SECONDS
    service.redirects = False
    service.overflow_mode = OverflowMode.TRUNCATE
    return service


def is_known(scheme: str) -> bool:
    """Whether Apprise has URLs of this scheme, and what it needs for them is installed."""
    found = _plugins()
    return scheme in found and bool(found[scheme].enabled)


def has_host(scheme: str) -> bool:
    """Whether the host in URLs of a known scheme may be one that is connected to, not a part of the service's own."""
    return "host" in _plugins()[scheme].template_tokens


def deliver(service: Any, title: str, body: str) -> Sent:
    """Send a text, and wait for what comes of it: perhaps long, since a server may answer byte by byte."""
    from apprise import NotifyFormat

    _heard.status = None
    ok = bool(service.notify(title=title, body=body, body_format=NotifyFormat.TEXT))
    return Sent(ok, None if ok else _heard.status)


def _plugins() -> Any:
    from apprise.manager_plugins import NotificationManager

    return NotificationManager()  # type: ignore[no-untyped-call]  # it has no annotations


@cache
def _asset() -> Any:
    from apprise import AppriseAsset, PersistentStoreMode

    return AppriseAsset(
        app_id="TaskHub",
        app_desc="TaskHub",
        app_url="",
        async_mode=False,
        allow_templates=False,
        http_redirects=False,
        pem_autogen=False,
        pgp_autogen=False,
        secure_logging=True,
        storage_mode=PersistentStoreMode.MEMORY,
    )


@cache
def _listen() -> None:
    logger = logging.getLogger("apprise")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(_Hearing())
    # Would log paths of requests, in which many services have their token.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
