"""Strict readers of the environment.

An unexpected value stops the process with one line that says what was expected. Every secret has a `_FILE` twin that
names a readable file.
"""

from __future__ import annotations

import os
import re
from email.errors import HeaderParseError
from email.headerregistry import HeaderRegistry as Headers
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

VARIABLES: dict[str, str] = {}
"""Every variable read so far, with what it is for; `docs/run/settings.md` is tested against it."""

_AUTHORITY = re.compile(r"([^/?#]*)(?:/([^?#]*))?(?:\?([^#]*))?.*", re.DOTALL)
_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
KEY_CHARACTERS = 32
"""The least length of a key, in characters."""

SESSION: Final = {
    "lock_timeout": "2s",
    "statement_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    # Frequent statements are prepared and look up rows by key: planning them each time would take longer than running
    # them. A plan that was made on an empty table must use the indexes, too (random_page_cost).
    "plan_cache_mode": "force_generic_plan",
    "random_page_cost": "1.1",
    # Before Postgres 18, a plan with a disabled sort has so high a cost that each claim would be JIT-compiled first.
    "jit": "off",
    # See domain/hints/announce.py.
    "th.hints": "app",
}
"""The Postgres settings of each database session, set right after it has connected (`store/session.py`)."""


def text(name: str, default: str, about: str) -> str:
    """The value of the variable `name`, or `default` if it is not set. `about` says what it is for (`VARIABLES`)."""
    VARIABLES[name] = about
    return os.environ.get(name, default)


def secret(name: str, about: str) -> str | None:
    """The value of `name`, or the contents of the file that `{name}_FILE` names, without blanks around it; `None` if
    neither is set. Raises `ImproperlyConfigured` for a named file that is empty or cannot be read."""
    VARIABLES[name] = about
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            found = Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise ImproperlyConfigured(f"{name}_FILE names {path}, which cannot be read: {why}") from None
        if not found:
            raise ImproperlyConfigured(f"{name}_FILE names {path}, which is empty")
        return found
    value = os.environ.get(name)
    return None if value is None else value.strip()


def source(name: str) -> str:
    """The name of the variable that `secret` reads: `name`, or its `_FILE` twin."""
    return f"{name}_FILE" if os.environ.get(f"{name}_FILE") else name


def key(value: str, where: str) -> str:
    """`value`, if it is long enough for a signing key: a short key can be guessed from anything that it signed. Raises
    `ImproperlyConfigured` otherwise; `where` tells in the message where the key is set."""
    if len(value) < KEY_CHARACTERS:
        raise ImproperlyConfigured(
            f"{where} has {len(value)} characters, and needs at least {KEY_CHARACTERS}: openssl rand -hex 32 makes one"
        )
    return value


def boolean(name: str, default: bool, about: str) -> bool:
    """The variable as a boolean. Raises `ImproperlyConfigured` unless it is exactly `True` or `False`."""
    value = text(name, str(default), about)
    if value not in ("True", "False"):
        raise ImproperlyConfigured(f"{name} must be True or False, not {value!r}")
    return value == "True"


def integer(name: str, default: int, about: str, *, low: int, high: int) -> int:
    """The variable as a whole number. Raises `ImproperlyConfigured` unless it is a whole number from `low` to
    `high`."""
    value = text(name, str(default), about)
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    return int(value)


def choice(name: str, default: str, about: str, choices: tuple[str, ...]) -> str:
    """The variable's value. Raises `ImproperlyConfigured` unless it is one of `choices`."""
    value = text(name, default, about)
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}")
    return value


def words(name: str, default: str, about: str) -> list[str]:
    """The words of a comma-separated variable, without blanks around them and without empty ones."""
    return [word.strip() for word in text(name, default, about).split(",") if word.strip()]


def origin(name: str, value: str) -> str:
    """`value` as an origin in normal form: scheme, host in lower case, and the port unless it is the
    scheme's default. Raises `ImproperlyConfigured` for anything else."""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is no address: {error}") from None
    default = {"http": 80, "https": 443}.get(parts.scheme)
    more = parts.path.rstrip("/") or parts.query or parts.fragment or set("@?#") & set(value)
    if default is None or not parts.hostname or more:
        raise ImproperlyConfigured(
            f"{name} must be http:// or https:// with a host, and nothing behind the port, not {value!r}"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if port in (None, default) else f":{port}")


_MAIL: Final = {"smtps": ("tls", 465), "smtp": ("starttls", 587), "smtp+plain": ("", 25)}
"""For each scheme of an SMTP server's address: how the connection is encrypted, and the port unless one is named."""


def smtp(name: str, value: str) -> dict[str, Any]:
    """Django's settings for the SMTP server at this address, such as `smtp://user:password@mail.example.com`. Raises
    `ImproperlyConfigured` for anything else; the message does not repeat the address, which may have a password."""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} has a bad host or port: {error}") from None
    if parts.scheme not in _MAIL or not parts.hostname or parts.path.rstrip("/") or parts.query or parts.fragment:
        raise ImproperlyConfigured(
            f"{name} must be smtp:// (encrypted by STARTTLS), smtps:// or smtp+plain:// with a host, and nothing "
            "behind the port"
        )
    security, default = _MAIL[parts.scheme]
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password):
        raise ImproperlyConfigured(f"{name} must have a user name and a password, or neither")
    if user and not security:
        raise ImproperlyConfigured(f"{name} must not have a password with smtp+plain://: it would be sent in the clear")
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or default,
        "EMAIL_HOST_USER": user,
        "EMAIL_HOST_PASSWORD": password,
        "EMAIL_USE_SSL": security == "tls",
        "EMAIL_USE_TLS": security == "starttls",
    }


def slack(bot: str, app: str, api_url: str, public_url: str) -> None:
    """Check the settings for Slack, unless neither token is set. Raises `ImproperlyConfigured` if only one token is
    set, if a token is none of Slack's, if `api_url` is neither https nor on this machine, or if `public_url` is
    empty."""
    named = {"TASKHUB_SLACK_BOT_TOKEN": (bot, "xoxb-"), "TASKHUB_SLACK_APP_TOKEN": (app, "xapp-")}
    if not (bot or app):
        return
    for name, (token, begins) in named.items():
        if not token:
            raise ImproperlyConfigured(f"{name} is not set: Slack needs a bot token and an app-level token")
        if not re.fullmatch(rf"{begins}[A-Za-z0-9-]+", token):
            raise ImproperlyConfigured(f"{source(name)} is no such token of Slack: one begins with {begins}")
    parts = urlsplit(api_url)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme != "https" and not local:
        raise ImproperlyConfigured("TASKHUB_SLACK_API_URL must be an address that begins with https://")
    if not public_url:
        raise ImproperlyConfigured("TASKHUB_SLACK_BOT_TOKEN needs PUBLIC_URL: messages have links")


_SERVICE: Final = re.compile(r"([a-z][a-z0-9-]{0,19})=([a-z][a-z0-9]*://\S+)")


def apprise(name: str, value: str, public_url: str) -> dict[str, str]:
    """The services that `value` lists as `name=URL name=URL`: by name, the URL of Apprise, in which `{to}` stands for a
    person's own part. Raises `ImproperlyConfigured` for anything else; the message does not repeat the URL, which may
    have a token."""
    found: dict[str, str] = {}
    for number, word in enumerate(value.split(), 1):
        service = _SERVICE.fullmatch(word)
        if service is None:
            raise ImproperlyConfigured(
                f"{source(name)} must be services with blanks between, each as name=scheme://…, the name of at most 20"
                f" small letters, digits and -: number {number} is none"
            )
        if service[1] in found:
            raise ImproperlyConfigured(f"{source(name)} has two services with the name {service[1]}")
        try:
            urlsplit(service[2])
        except ValueError:
            raise ImproperlyConfigured(f"{source(name)}: the URL of {service[1]} has a bad host") from None
        if service[2].count("{to}") != 1:
            raise ImproperlyConfigured(
                f"{source(name)}: the URL of {service[1]} must have {{to}} once, where each person's own part stands"
            )
        found[service[1]] = service[2]
    if found and not public_url:
        raise ImproperlyConfigured(f"{name} needs PUBLIC_URL: messages have links")
    return found


def sender(name: str, value: str) -> str:
    """`value` as the sender of mails: an address, or `Name <address>`. Raises `ImproperlyConfigured` otherwise."""
    try:
        found: tuple[Any, ...] = getattr(Headers()("From", value), "addresses", ())
    except (ValueError, IndexError, HeaderParseError):
        found = ()
    plain = value.isascii() and value.isprintable()
    if not plain or len(found) != 1 or not found[0].username or not found[0].domain:
        raise ImproperlyConfigured(f"{name} must be one address, or a name and <an address>, not {value!r}")
    return str(found[0])


def _place(text: str) -> tuple[str, str]:
    """The host and the port in `text`, a `host:port` of a database URL; each is empty if it is missing."""
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL has a bad host or port: {error}") from None
    return unquote(parts.hostname or ""), "" if port is None else str(port)


def _asked(options: str) -> dict[str, str]:
    """The settings in the `options` of a URL, as libpq and psql accept them: `-c name=value`, or `--name=value`."""
    words = iter([re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in _WORD.findall(options)])
    found = {}
    for word in words:
        setting = next(words, "") if word == "-c" else word.removeprefix("-c" if word.startswith("-c") else "--")
        name, equals, value = setting.partition("=")
        if not name or not equals or not word.startswith(("-c", "--")):
            raise ImproperlyConfigured(
                f"options= in DATABASE_URL must be settings, such as `-c statement_timeout=30s`, not {word!r}"
            )
        found[name.replace("-", "_").lower()] = value
    return found


def database(url: str) -> dict[str, object]:
    """Django's database settings for a `postgresql://` URL. Several hosts are tried in turn, as libpq does, and
    read-only ones are skipped. The key `SESSION` is TaskHub's, not Django's: the constant `SESSION`, overridden by
    `options=` in the URL.

    Raises `ImproperlyConfigured` for another scheme: Postgres is the only store.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgres", "postgresql"):
        other = f", not {scheme}://" if scheme.isalnum() and scheme != url else ""  # other text may be a password
        raise ImproperlyConfigured(f"DATABASE_URL must start with postgresql://{other}")
    # Not parsed by `urlsplit`, which knows only URLs with one host.
    authority, path, query = _AUTHORITY.fullmatch(rest).groups(default="")  # type: ignore[union-attr] # any text matches
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    places = [_place(place) for place in hosts.split(",")]
    ports = [port for _, port in places]
    options: dict[str, object] = dict(parse_qsl(query))
    asked = _asked(str(options.pop("options", "")))
    host = str(options.pop("host", "") or ",".join(host for host, _ in places))
    port = ",".join(ports) if len(set(ports)) > 1 else ports[0]
    several = "," in host
    if several:
        # A standby, or a former primary, would refuse writes.
        options.setdefault("target_session_attrs", "read-write")
    return {
        "ENGINE": "taskhub.store.backend",
        "NAME": unquote(path) or "taskhub",
        "USER": unquote(user or str(options.pop("user", ""))),
        "PASSWORD": unquote(password),
        "HOST": host,
        "PORT": str(port or options.pop("port", "") or ""),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 2 if several else 5,
            # If the server is gone without having closed the connection, sending and waiting end after these times.
            "tcp_user_timeout": 10_000,
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "application_name": "taskhub",
            # Django's default, None, would turn off server-side preparation, which `store.call` asks for.
            "prepare_threshold": 5,
            **options,
        },
        "SESSION": {**SESSION, **asked},
        "TEST": {"NAME": "test_taskhub"},
    }
