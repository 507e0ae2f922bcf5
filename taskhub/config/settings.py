"""All settings, in one module, read from the environment (see `env.py`)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from urllib.parse import quote, urlsplit

from csp.constants import NONCE
from django.core.exceptions import ImproperlyConfigured

from taskhub.config import env
from taskhub.core.names import CALL_SCOPES, SCOPES

BASE_DIR = Path(__file__).resolve().parents[2]
VERSION: str = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]["version"]

DATA_DIR = Path(env.text("TASKHUB_DATA_DIR", ".taskhub", "Where `up` keeps its database, keys and credentials"))
DATA_DIR = DATA_DIR.expanduser().resolve()


def _data_file(name: str) -> str | None:
    try:
        return (DATA_DIR / name).read_text().strip()
    except OSError:
        return None


DEBUG = env.boolean("DEBUG", False, "Django's debug pages; never in production")
SECRET_KEY = (
    env.secret(
        "SECRET_KEY",
        "Signs sessions, cursors and audit seals, encrypts tokens for servers; `up` makes one in the data directory",
    )
    or ""
)
if SECRET_KEY or env.source("SECRET_KEY") != "SECRET_KEY":
    SECRET_KEY = env.key(SECRET_KEY, env.source("SECRET_KEY"))
elif (_made := _data_file("secret_key")) is not None:
    SECRET_KEY = env.key(_made, str(DATA_DIR / "secret_key"))
else:
    # With an empty key, commands that need no secrets still work; everything that signs refuses an empty key.
    SECRET_KEY = "unset-" + "x" * 50 if DEBUG else ""

PUBLIC_URL = env.text("PUBLIC_URL", "", "The address people and clients use, such as https://hub.example.com")
if PUBLIC_URL:
    PUBLIC_URL = env.origin("PUBLIC_URL", PUBLIC_URL)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", "Host names this server answers to")
if not ALLOWED_HOSTS:
    raise ImproperlyConfigured("ALLOWED_HOSTS names no host: nobody could reach this server")
ALLOWED_ORIGINS = [
    env.origin("ALLOWED_ORIGINS", word)
    for word in env.words("ALLOWED_ORIGINS", "", "Sites whose pages may call /mcp with a token, comma separated")
]
TASKHUB_REVISIONS = env.words(
    "TASKHUB_REVISIONS",
    "2026-07-28,2025-11-25,2025-06-18,2025-03-26,sep-1686,sep-2557",
    "Protocol revisions served on /mcp and, sep-2557, on /mcp/sep-2557; comma separated",
)
TASKHUB_ANONYMOUS = env.boolean(
    "TASKHUB_ANONYMOUS", False, "Serve /mcp without a token, as one shared context. For trials only"
)
TASKHUB_PATIENCE_SECONDS = env.integer(
    "TASKHUB_PATIENCE_SECONDS",
    25,
    "How long the caller of a plain call waits before it gets an interim result; 0: for as long as it takes",
    low=0,
    high=3_600,
)
TASKHUB_LEAVE_SECONDS = env.integer(
    "TASKHUB_LEAVE_SECONDS",
    20,
    "How long a plain call goes on whose caller left, for the same call to come again",
    low=0,
    high=3_600,
)
TASKHUB_HUB_TOOLS = env.boolean(
    "TASKHUB_HUB_TOOLS", True, "Whether clients without tasks are listed the hub's own tools"
)
TASKHUB_INLINE_WAIT_MS = env.integer(
    "TASKHUB_INLINE_WAIT_MS", 500, "How long an `auto` tool's caller waits before it gets a handle", low=0, high=10_000
)
TASKHUB_LANES = env.integer("TASKHUB_LANES", 4, "Database threads per web process for /mcp", low=1, high=64)
TASKHUB_PAGE_LANES = env.integer(
    "TASKHUB_PAGE_LANES", 8, "Database threads per web process for pages, health and sign-ins", low=1, high=64
)
TASKHUB_SLOTS = env.integer("TASKHUB_SLOTS", 32, "Tools one worker runs at once", low=1, high=1_000)
TASKHUB_WEB_SLOTS = env.integer(
    "TASKHUB_WEB_SLOTS", 64, "Plain calls that one web process runs at once, without the queue", low=0, high=1_000
)
TASKHUB_COMMANDS = env.integer(
    "TASKHUB_COMMANDS", 32, "Processes of `stdio:` commands that clients have in one worker", low=1, high=1_000
)
TASKHUB_COMMAND_WRAPPER = env.text(
    "TASKHUB_COMMAND_WRAPPER", "", "Words before each `stdio:` command, as of bubblewrap, that keep it from our files"
)
TASKHUB_COMMAND_USER = env.text(
    "TASKHUB_COMMAND_USER", "", "The user that `stdio:` commands run as, where the worker is root"
)
TASKHUB_COMMAND_OPEN_FILES = env.integer(
    "TASKHUB_COMMAND_OPEN_FILES", 8_192, "Files and sockets that a process of a command has open", low=0, high=1_048_576
)
TASKHUB_COMMAND_PROCESSES = env.integer(
    "TASKHUB_COMMAND_PROCESSES", 0, "Processes and threads of the user that commands run as", low=0, high=1_000_000
)
TASKHUB_COMMAND_MEMORY_MIB = env.integer(
    "TASKHUB_COMMAND_MEMORY_MIB", 8_192, "Data of its own that a process of a command keeps", low=0, high=1_048_576
)
TASKHUB_COMMAND_IDLE_SECONDS = env.integer(
    "TASKHUB_COMMAND_IDLE_SECONDS",
    3_600,
    "How long a client's process or session at a server is kept without a call",
    low=1,
    high=604_800,
)
TASKHUB_LEASE_SECONDS = env.integer(
    "TASKHUB_LEASE_SECONDS", 30, "How long a silent worker keeps a task before it is taken away", low=3, high=600
)
TASKHUB_OUTCOME_HOURS = env.integer(
    "TASKHUB_OUTCOME_HOURS",
    72,
    "How long a task with an unknown outcome waits for a person who says whether its tool ran, 0 for not at all",
    low=0,
    high=720,
)
TASKHUB_UNDO_SECONDS = env.integer(
    "TASKHUB_UNDO_SECONDS",
    5,
    "How long a decision in the console can be undone, and its call waits, 0 for not at all",
    low=0,
    high=60,
)
TASKHUB_CONTEXT_APPROVALS = env.integer(
    "TASKHUB_CONTEXT_APPROVALS", 100, "Calls per auth context that wait for approval", low=1, high=1_000_000
)
TASKHUB_CONVERSATION_APPROVALS = env.integer(
    "TASKHUB_CONVERSATION_APPROVALS",
    50,
    "Calls of one session, or of one trace, that wait for approval",
    low=1,
    high=1_000_000,
)
TASKHUB_CONTEXT_LIVE = env.integer("TASKHUB_CONTEXT_LIVE", 1_000, "Live tasks per auth context", low=1, high=1_000_000)
TASKHUB_CONTEXT_RUNNING = env.integer(
    "TASKHUB_CONTEXT_RUNNING", 32, "Tasks of one auth context that run at once", low=1, high=10_000
)
TASKHUB_CONTEXT_REQUESTS = env.integer(
    "TASKHUB_CONTEXT_REQUESTS",
    1_000,
    "Requests a second of one client at one web process, 0 for any",
    low=0,
    high=1_000_000,
)
TASKHUB_CONTEXT_KIB = env.integer(
    "TASKHUB_CONTEXT_KIB",
    8_192,
    "KiB a second of one client's requests at one web process, 0 for any",
    low=0,
    high=1_000_000,
)
TASKHUB_RETENTION_DAYS = env.integer(
    "TASKHUB_RETENTION_DAYS", 30, "How long the console keeps ended tasks", low=1, high=3_650
)
TASKHUB_MAX_BODY = env.integer(
    "TASKHUB_MAX_BODY", 4_194_304, "Largest request body in bytes", low=1_024, high=16_777_216
)
TASKHUB_OAUTH = env.boolean(
    "TASKHUB_OAUTH", True, "The built-in authorization server: people sign clients in with their browser"
)
TASKHUB_OAUTH_REGISTRATION = env.boolean(
    "TASKHUB_OAUTH_REGISTRATION", False, "Clients may register themselves, without anybody being asked (RFC 7591)"
)
TASKHUB_OAUTH_LOCAL_DOCUMENTS = env.boolean(
    "TASKHUB_OAUTH_LOCAL_DOCUMENTS",
    False,
    "Read client metadata documents from this machine's loopback addresses too. For development only",
)
TASKHUB_OAUTH_LOCAL_SERVERS = env.boolean(
    "TASKHUB_OAUTH_LOCAL_SERVERS",
    False,
    "Servers may have their authorization server on this machine's loopback addresses, without https too",
)
TASKHUB_PUSH_HOSTS = env.words(
    "TASKHUB_PUSH_HOSTS",
    "",
    "Push services of your own network, as hosts with or without port: they may have private addresses, and on this"
    " machine need no https",
)
TASKHUB_OAUTH_TOKEN_SECONDS = env.integer(
    "TASKHUB_OAUTH_TOKEN_SECONDS", 3_600, "How long an access token of the built-in server lives", low=5, high=86_400
)
TASKHUB_OAUTH_REFRESH_DAYS = env.integer(
    "TASKHUB_OAUTH_REFRESH_DAYS", 30, "How long an unused sign-in of a client can be refreshed", low=1, high=365
)
OIDC_ISSUER = env.text(
    "OIDC_ISSUER", "", "An outside issuer whose JWTs are accepted, such as https://login.example.com/realms/ops"
)
OIDC_AUDIENCE = env.text("OIDC_AUDIENCE", "", "The `aud` of its tokens for us; unset: the address of /mcp")
OIDC_JWKS_URL = env.text("OIDC_JWKS_URL", "", "Where its keys are; unset: as its metadata says")
OIDC_ALGORITHMS = env.words("OIDC_ALGORITHMS", "RS256,ES256", "Signatures accepted from it, asymmetric ones only")
OIDC_TENANT = env.text("OIDC_TENANT", "main", "The tenant its callers belong to, by its short name")
_smtp = env.secret("TASKHUB_SMTP_URL", "The SMTP server that mails are handed to; unset: no mail is sent") or ""
_mail = env.smtp(env.source("TASKHUB_SMTP_URL"), _smtp) if _smtp else {}
if _smtp and not PUBLIC_URL:
    raise ImproperlyConfigured("TASKHUB_SMTP_URL needs PUBLIC_URL: mails have links")
EMAIL_HOST = _mail.get("EMAIL_HOST", "")
EMAIL_PORT = _mail.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _mail.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = _mail.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_SSL = _mail.get("EMAIL_USE_SSL", False)
EMAIL_USE_TLS = _mail.get("EMAIL_USE_TLS", False)
TASKHUB_MAIL_FROM = env.text("TASKHUB_MAIL_FROM", "", "The sender of mails, such as TaskHub <taskhub@example.com>")
if _smtp and not TASKHUB_MAIL_FROM:
    TASKHUB_MAIL_FROM = f"TaskHub <taskhub@{urlsplit(PUBLIC_URL).hostname}>"
if TASKHUB_MAIL_FROM:
    DEFAULT_FROM_EMAIL = TASKHUB_MAIL_FROM = env.sender("TASKHUB_MAIL_FROM", TASKHUB_MAIL_FROM)
TASKHUB_SLACK_BOT_TOKEN = (
    env.secret("TASKHUB_SLACK_BOT_TOKEN", "The bot token of the Slack app that tells people; unset: no Slack") or ""
)
TASKHUB_SLACK_APP_TOKEN = (
    env.secret("TASKHUB_SLACK_APP_TOKEN", "The app-level token of that app, by which clicks on its buttons come") or ""
)
TASKHUB_SLACK_API_URL = env.text(
    "TASKHUB_SLACK_API_URL", "https://slack.com/api/", "Where Slack's API is; another for GovSlack"
)
env.slack(TASKHUB_SLACK_BOT_TOKEN, TASKHUB_SLACK_APP_TOKEN, TASKHUB_SLACK_API_URL, PUBLIC_URL)
TASKHUB_APPRISE_URLS = env.apprise(
    "TASKHUB_APPRISE_URLS",
    env.secret("TASKHUB_APPRISE_URLS", "Services that people can be told on, by name, as URLs of Apprise") or "",
    PUBLIC_URL,
)
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", "How much is logged", ("DEBUG", "INFO", "WARNING", "ERROR"))
METRICS_TOKEN = (
    env.secret("METRICS_TOKEN", "What scrapers of /metrics bring; unset: open, without what names servers") or ""
)
TASKHUB_LOG_FORMAT = env.choice("TASKHUB_LOG_FORMAT", "text", "How a line of the log is written", ("text", "json"))

_database_url = (
    env.secret(
        "DATABASE_URL", "postgresql://user:password@host/name; unset: an embedded Postgres in the data directory"
    )
    or _data_file("database_url")
    or f"postgresql://taskhub@/taskhub?host={quote(str(DATA_DIR / 'pg'))}"
)
EMBEDDED_DATABASE = not env.secret("DATABASE_URL", env.VARIABLES["DATABASE_URL"])
DATABASES = {"default": env.database(_database_url)}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "template_partials",
    "csp",
    "django_htmx",
    "heroicons",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "oauth2_provider",
    "channels",
    "procrastinate.contrib.django",
    "taskhub.store",
    "taskhub.console",
    "taskhub.cli",
    "taskhub.worker",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "taskhub.console.middleware.person_middleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "taskhub.console.context.frame",
            ],
        },
    },
]

ROOT_URLCONF = "taskhub.config.urls"
ASGI_APPLICATION = "taskhub.config.asgi.application"
# The layer removes members of a group after `group_expiry`, and members with an unread message older than `expiry`:
# with the defaults, a console that is open for days would get no more messages.
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels.layers.InMemoryChannelLayer",
        "CONFIG": {"capacity": 1_000, "expiry": 10**9, "group_expiry": 10**9},
    }
}

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "taskhub.domain.oauth.secrets.RandomSecretHasher",  # for the secrets of OAuth applications, never for passwords
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
ACCOUNT_ADAPTER = "taskhub.domain.people.accounts.ClosedAccounts"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_FORMS = {
    "login": "taskhub.console.forms.people.SignIn",
    "change_password": "taskhub.console.forms.people.OwnPassword",
    "reauthenticate": "taskhub.console.forms.people.ItIsYou",
}
MFA_ADAPTER = "taskhub.domain.people.factors.SealedFactors"
MFA_FORMS = {"authenticate": "taskhub.console.forms.people.SignInCode"}
MFA_TOTP_TOLERANCE = 1  # also accepts the code of the 30 seconds before, and of the 30 seconds after
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_RATE_LIMITS = {
    "login_failed": "10/15m/ip,10/15m/key",
    "change_password": "10/15m/user",  # tries since the last change of the password
    "oauth_refused": "60/m/ip",  # refusals by the token endpoint
    "oauth_registered": "20/h/ip",
}
# Holds the counters of the rate limits, per process. The default of 300 entries would drop counters too early.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10_000}}}
ALLAUTH_TRUSTED_PROXY_COUNT = env.integer(
    "TRUSTED_PROXIES", 0, "How many reverse proxies in front may be believed about the peer's address", low=0, high=5
)
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"

SESSION_ENGINE = "taskhub.domain.people.browser_sessions"
SESSION_COOKIE_AGE = 14 * 86_400
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "taskhub.console.views.errors.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if PUBLIC_URL.startswith("https://") else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ALLAUTH_TRUSTED_PROXY_COUNT else None
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL else []
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]  # never to disk; drops larger files
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1_000

OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"
# The defaults of django-oauth-toolkit are older than RFC 9700: everything that the RFC advises against is off here.
OAUTH2_PROVIDER = {
    "OAUTH2_SERVER_CLASS": "oauthlib.oauth2.WebApplicationServer",  # authorization code and refresh, nothing else
    "OAUTH2_VALIDATOR_CLASS": "taskhub.domain.oauth.server.Validator",
    "SCOPES": {scope: scope for scope in SCOPES},
    "DEFAULT_SCOPES": list(CALL_SCOPES),
    "CLIENT_SECRET_HASHER": "random_sha256",
    "ACCESS_TOKEN_GENERATOR": "taskhub.domain.oauth.server.access_token",
    "REFRESH_TOKEN_GENERATOR": "taskhub.domain.oauth.server.refresh_token",
    "ACCESS_TOKEN_EXPIRE_SECONDS": TASKHUB_OAUTH_TOKEN_SECONDS,
    "REFRESH_TOKEN_EXPIRE_SECONDS": TASKHUB_OAUTH_REFRESH_DAYS * 86_400,
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": 60,
    "ROTATE_REFRESH_TOKEN": True,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "PKCE_REQUIRED": True,
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https", "http"],  # http for loopback only: see the validator
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "OIDC_ISS_ENDPOINT": PUBLIC_URL,
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
    "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_basic", "client_secret_post"],
    "DCR_ENABLED": TASKHUB_OAUTH_REGISTRATION,
    "CIMD_ENABLED": True,
    "CIMD_METADATA_FETCHER": "taskhub.domain.oauth.documents.Documents",
    "CIMD_REGISTRATION_PERMISSION_CLASSES": ("taskhub.domain.oauth.documents.OnlyWhenAPersonAsks",),
    "CIMD_MAX_DOCUMENT_SIZE": 65_536,
    "CIMD_FETCH_TIMEOUT_SECONDS": 5,
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
    "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
    "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN": True,
    "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING": True,
    "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED": True,
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'", NONCE],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "manifest-src": ["'self'"],
        "worker-src": ["'self'"],
    },
}
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = DEBUG
WHITENOISE_AUTOREFRESH = DEBUG

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

PROCRASTINATE_AUTODISCOVER_MODULE_NAME = ""
PROCRASTINATE_IMPORT_PATHS = ["taskhub.worker.jobs"]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"()": "taskhub.lib.logs.TextLine"},
        "json": {"()": "taskhub.lib.logs.JsonLine"},
    },
    "filters": {"without_query": {"()": "taskhub.lib.logs.WithoutQuery"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": TASKHUB_LOG_FORMAT}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "uvicorn.access": {"level": "WARNING"},
        "uvicorn.error": {"filters": ["without_query"]},
        "procrastinate": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},  # would log headers
        "urllib3": {"level": "ERROR"},  # would log paths, which may have the token of a service
    },
}
