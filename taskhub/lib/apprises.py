"""Apprise, which is an extra: makes a service of a URL, and sends by it. Nothing is read from or written to disk, and
no redirect is followed. What Apprise logs is dropped, because it may contain addresses and tokens."""

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
"""How many seconds a service may take for the next piece of its answer; `CONNECT_SECONDS`: to accept a connection."""
_STATUS: Final = re.compile(r"\berror=([1-5]\d\d)\b")
_heard = threading.local()


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of sending a message. `status` is that of the last HTTP answer that refused the message; `None` if
    there was no such answer."""

    ok: bool
    status: int | None = None


class _Hearing(logging.Handler):
    """Finds the status of a refusal in what Apprise logs, and keeps it for the thread that sends."""

    def emit(self, record: logging.LogRecord) -> None:
        if found := _STATUS.search(record.getMessage()):
            _heard.status = int(found[1])


@cache
def has_apprise() -> bool:
    """Whether the extra `apprise` is installed."""
    return find_spec("apprise") is not None


def service_of(url: str) -> Any | None:
    """The service of a URL; `None` if Apprise knows no such service, or the URL lacks something."""
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
    """Whether Apprise has URLs of this scheme, and the packages that it needs for them are installed."""
    found = _plugins()
    return scheme in found and bool(found[scheme].enabled)


def has_host(scheme: str) -> bool:
    """Whether URLs of a known scheme name a host that is connected to. Otherwise the service has its own hosts."""
    return "host" in _plugins()[scheme].template_tokens


def deliver(service: Any, title: str, body: str) -> Sent:
    """Send a text, and wait for the outcome. That may take long, since a server may answer byte by byte."""
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
    # urllib3 would log paths of requests, in which many services have their token.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
