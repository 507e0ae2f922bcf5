"""The tables: columns, constraints and indexes only. Rules are in SQL functions and in `domain`."""

from taskhub.store.models.audit import Event, Seal
from taskhub.store.models.credentials import GrantRequest, ServerGrant, ServerOAuth
from taskhub.store.models.feed import FeedConsumer
from taskhub.store.models.notices import (
    Delivery,
    Notice,
    NoticeAddress,
    NoticeChoices,
    PushBrowser,
    SlackCard,
    SlackMessage,
    Webhook,
)
from taskhub.store.models.oauth import Application, Consent, TokenFamily
from taskhub.store.models.offers import Interest, Offer, Relay
from taskhub.store.models.people import (
    Absence,
    AccessToken,
    AuthContext,
    CodeUse,
    LearnedPatience,
    Membership,
    NewsRead,
    SignIn,
    Tenant,
)
from taskhub.store.models.permits import Permit
from taskhub.store.models.rules import Bypass, DismissedProposal, RuleVersion
from taskhub.store.models.servers import ConnectionTest, Server, Tool, ToolVersion
from taskhub.store.models.sessions import Outbound, Session, Stream
from taskhub.store.models.tasks import (
    Attempt,
    Decision,
    Deferred,
    OutcomeCheck,
    Preview,
    Question,
    ResultRead,
    Task,
    TaskLog,
)
from taskhub.store.models.workers import ServerLine, Timing, UpstreamSession, Worker

__all__ = [
    "Absence",
    "AccessToken",
    "Application",
    "Attempt",
    "AuthContext",
    "Bypass",
    "CodeUse",
    "ConnectionTest",
    "Consent",
    "Decision",
    "Deferred",
    "Delivery",
    "DismissedProposal",
    "Event",
    "FeedConsumer",
    "GrantRequest",
    "Interest",
    "LearnedPatience",
    "Membership",
    "NewsRead",
    "Notice",
    "NoticeAddress",
    "NoticeChoices",
    "Offer",
    "Outbound",
    "OutcomeCheck",
    "Permit",
    "Preview",
    "PushBrowser",
    "Question",
    "Relay",
    "ResultRead",
    "RuleVersion",
    "Seal",
    "Server",
    "ServerGrant",
    "ServerLine",
    "ServerOAuth",
    "Session",
    "SignIn",
    "SlackCard",
    "SlackMessage",
    "Stream",
    "Task",
    "TaskLog",
    "Tenant",
    "Timing",
    "TokenFamily",
    "Tool",
    "ToolVersion",
    "UpstreamSession",
    "Webhook",
    "Worker",
]
