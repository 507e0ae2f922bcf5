"""Every event of the audit log and its fields. `docs/dev/events.md` is generated from this module, `record_event` warns
of an event that differs from its description here, and a test checks the events of triggers and database functions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple


class Shape(NamedTuple):
    """A description of an event, and the names of the fields of its `before` and `after`. A field with `?` may be
    missing; `*` stands for whichever fields were changed."""

    says: str
    before: str = ""
    after: str = ""


_TASK: Final = "state message epoch"
_VERDICT: Final = (
    "key kind for? edited? arguments_sha256? definition_sha256? call_sha256? preview_sha256? second_factor?"
)
_GIVEN: Final = "headers? environment? directory? own_process? connect_seconds? calls_at_once? review? pinned?"
_WEBHOOK: Final = "origin kinds client"
_CHOICES: Final = "kinds pace daily_at quiet zone"
_REACHED: Final = "channel address pending"
_APPLICATION: Final = "client_id name type redirects"

EVENTS: Final[dict[str, Shape]] = {
    # tasks: changes of the state are recorded by a trigger
    "task.created": Shape(
        "A call became a task.", after=f"{_TASK} arguments_sha256? definition_sha256? answers_sha256? decided?"
    ),
    "task.decided": Shape(
        "The rules decided a call again: they or the tool had changed when a worker took it, or its bypass was over.",
        "decided?",
        "decided",
    ),
    "task.claimed": Shape("A worker took the task.", "state", _TASK),
    "task.released": Shape("A worker gave the task back, or lost it.", "state", _TASK),
    "task.asked": Shape("The tool or the hub asked somebody.", "state", _TASK),
    "task.answered": Shape("Every question has its answer.", "state", _TASK),
    "task.finished": Shape("The task has a result.", "state", _TASK),
    "task.faulted": Shape("The task ended with an error of the protocol.", "state", _TASK),
    "task.cancelled": Shape("The task was cancelled.", "state", _TASK),
    "task.cancel.requested": Shape("Somebody wants the task cancelled; a worker has it.", "state", _TASK),
    "task.outcome.unknown": Shape(
        "A worker, a connection or a server's task was lost while the tool ran: people are asked whether it did.",
        after="key why worker epoch",
    ),
    "task.outcome.checked": Shape(
        "The companion of a tool was asked whether the tool ran; it need not have answered.",
        after="key tool answered",
    ),
    "task.deferred": Shape(
        "The server runs the call as a task of its own, which workers poll.", after="state epoch revision"
    ),
    "task.left": Shape("The caller of a plain call stopped waiting, without its result.", after="state"),
    "task.joined": Shape("The client made the same call again, and waits for this task.", after="state"),
    "task.write.stale": Shape(
        "A worker that had lost the task wrote, and nothing changed.", after="write epoch current state"
    ),
    "task.deleted": Shape("The client wants the task forgotten (SEP-1686); it stays in the console.", after="task"),
    # questions: recorded by the database functions that open them and store their answers
    "question.asked": Shape(
        "A question was opened: to people, to the client, or to either, by `audience`.",
        after="key kind audience quorum group?",
    ),
    "question.approve": Shape(
        "A person approved the call. `for`: for whom they did, as the deputy of somebody who is away.", after=_VERDICT
    ),
    "question.reject": Shape("A person rejected the call; `for` as above.", after=_VERDICT),
    "question.accept": Shape("A form was filled in, or a page visited.", after=_VERDICT),
    "question.decline": Shape("A form was declined.", after=_VERDICT),
    "question.cancel": Shape("A form was dismissed.", after=_VERDICT),
    "question.answer": Shape("A model's reply or a list of roots was given.", after=_VERDICT),
    "question.ran": Shape("Somebody ruled that the tool of a lost run ran; the task ends.", after=_VERDICT),
    "question.unrun": Shape("Somebody ruled that the tool of a lost run did not run; it runs again.", after=_VERDICT),
    "question.undone": Shape(
        "A person undid their decision on an approval in time: the `verdict` does not count. `reopened`: whether it had"
        " closed the question, which is open again.",
        after="key kind verdict reopened",
    ),
    "question.commented": Shape("A person commented on a question that is open.", after="key kind"),
    "question.handed.over": Shape(
        "A person handed an open question over, to a `person` or to a `group`. Who may answer it is as before.",
        after="key kind person? group?",
    ),
    "question.asked.back": Shape(
        "An approver asked the requester something about the call that the approval `about` waits for: its client, or"
        " with the audience `operator` the person who signed its program in. The reason is the text.",
        after="key kind about audience",
    ),
    "question.answered.back": Shape(
        "The requester answered that, or declined or dismissed it. The answer is shown with the approval, and is no"
        " argument of the call.",
        after="key kind about verdict answer_sha256",
    ),
    "question.withdrawn": Shape("An approver took back what they had asked the requester.", after="key kind about"),
    "question.edited": Shape(
        "A person changed arguments of a call that waits for approval: `edited` names those that differ from what the"
        " client sent. The question `key` is closed; `asked` is the one about the call as it is now.",
        after="key kind asked edited for? arguments_sha256? definition_sha256? call_sha256?",
    ),
    "question.undecided": Shape(
        "Nobody decided an approval in time. What the rule says then, and no person, was done: `otherwise` is `deny`,"
        " `allow` or `escalate`, to the `group` that is asked now. Without `otherwise` it was the time that the program"
        " gave, and the request has ended.",
        after="key kind otherwise? rule? version? group? arguments_sha256? definition_sha256? call_sha256?",
    ),
    "question.reminded": Shape(
        "Nobody had decided an approval by the time at which its rule reminds people: the `group`, or else all who may"
        " approve. `needed`: how many of them still have to.",
        after="key kind rule version group? needed",
    ),
    "question.previewed": Shape(
        "The preview of a call was run, for the people who are asked about it, or once more right before the tool; it"
        " need not have answered.",
        after="key tool answered preview_sha256",
    ),
    "question.passed.on": Shape(
        "By the tool's policy people are asked, since the client's program declined by itself.",
        "audience",
        "audience key kind",
    ),
    "question.refused": Shape("The client answered a question with an error, or what does not fit.", after="key kind"),
    "question.page.accept": Shape("The client opened the page of a question for people.", after="key kind"),
    "question.page.decline": Shape("The client declined to open the page of a question for people.", after="key kind"),
    "question.page.cancel": Shape("The client dismissed the request to open such a page.", after="key kind"),
    "question.page.refused": Shape("The client answered such a request with an error.", after="key kind"),
    # permits: calls that their clients make themselves
    "permit.issued": Shape(
        "A client may make the call itself, once: people approved it, or a rule allowed it.",
        after="permit server version seconds arguments_sha256 definition_sha256",
    ),
    "permit.redeemed": Shape("A client used a permit.", after="permit arguments_sha256 definition_sha256"),
    "permit.refused": Shape(
        "A permit was presented and not redeemed; recorded at most once a minute for each reason.", after="permit why"
    ),
    # servers and what they offer
    "server.added": Shape("A server was connected.", after=f"transport target prefix token {_GIVEN}"),
    "server.changed": Shape(
        "A server has another address, prefix, directory, time to connect or pinned version; or a process of its own,"
        " or clients that share its processes, or no more; or it is left to a file of configuration (`by_file`), or no"
        " more.",
        f"transport? target? prefix? shared? by_file? {_GIVEN}",
        f"transport? target? prefix? shared? by_file? {_GIVEN}",
    ),
    "server.headers.changed": Shape(
        "Headers for a server were set or dropped. `given`: those with a new value.", "headers", "headers given"
    ),
    "server.environment.changed": Shape(
        "Variables of a server's process were set or dropped. `given`: those with a new value.",
        "environment",
        "environment given",
    ),
    "server.token.changed": Shape("The token for a server was set or dropped.", "token", "token"),
    "server.oauth.changed": Shape(
        "How the hub is authorized at a server is another. `secret`: whether it has one, or a new one; `dropped`: how"
        " many authorizations ended with that.",
        "way? issuer? client_id? scopes? secret?",
        "way? issuer? client_id? scopes? secret? dropped?",
    ),
    "server.registration.dropped": Shape(
        "The hub's registration at an authorization server was dropped: the next authorization makes another.",
        before="issuer client_id",
    ),
    "grant.given": Shape(
        "The hub was authorized at a server: by a person, for everyone, its lists, a person or a client.",
        after="for issuer scopes refreshes",
    ),
    "grant.refused": Shape(
        "An authorization that a person had begun came to nothing: refused by them or by the authorization server.",
        after="for problem",
    ),
    "grant.refreshed": Shape("An authorization was refreshed; recorded once a day.", after="for"),
    "grant.lapsed": Shape("An authorization is good for nothing any more.", after="for problem"),
    "grant.revoked": Shape("An authorization was taken back, and its tokens erased.", before="for"),
    "server.calls.changed": Shape("A server takes more or fewer calls at once.", "calls_at_once", "calls_at_once"),
    "server.review.changed": Shape(
        "New and changed tools of a server wait for a person, or no more. `confirmed`: how many count as confirmed.",
        "review",
        "review confirmed",
    ),
    "server.enabled": Shape("A server is offered again.", "enabled state", "enabled state"),
    "server.disabled": Shape("A server is offered no more.", "enabled state", "enabled state"),
    "server.removed": Shape("A server was removed, and its secrets erased.", f"transport target prefix token {_GIVEN}"),
    "server.refresh.requested": Shape("A person wants a server listed anew."),
    "server.tested": Shape("A person tested the connection to a server."),
    "server.ready": Shape("A server was reached and listed.", "state", "state"),
    "server.unreachable": Shape("A server cannot be reached.", "state", "problem"),
    "server.unauthorized": Shape(
        "A server has to be authorized, or authorized again, before it can be listed.", "state", "problem"
    ),
    "server.breaker.opened": Shape(
        "So many calls in a row could not connect; further calls of the server wait.", after="failures problem"
    ),
    "server.breaker.closed": Shape(
        "The server was reached, or is another; its calls go to it again.", before="since failures"
    ),
    "server.probe.requested": Shape("A person wants a server whose calls wait to be tried now."),
    "tool.changed": Shape("A tool's definition is another.", "digest", "digest"),
    "tool.confirmed": Shape(
        "A person confirmed a tool, `as` `new`, `changed` or `gone`. The digest before is the one confirmed last.",
        "digest",
        "digest as",
    ),
    "tool.policy.changed": Shape("An admin changed what holds for a tool.", "*", "*"),
    "rules.changed": Shape(
        "The rules are others; names of rules that are new, gone, different or elsewhere. The version has their text.",
        "version digest",
        "version digest added removed changed moved",
    ),
    "rules.denied": Shape(
        "A rule denied a call, and no task was made.", after="rule version doubt server arguments_sha256"
    ),
    "rules.proposal.dismissed": Shape(
        "Somebody did not want a rule that was proposed since all calls of a kind had been approved.",
        after="rule client tool when approved",
    ),
    "rules.bypass.started": Shape(
        "Somebody began a bypass: until its end calls run that people would be asked about. `server` if only those of"
        " one server.",
        after="bypass until reason minutes server?",
    ),
    "rules.bypass.ended": Shape(
        "A bypass is over: somebody ended it, or its time was over (`in_time`), noted when a worker or the next bypass"
        " found it.",
        after="bypass in_time",
    ),
    "rules.bypassed": Shape(
        "A bypass let a call pass that people would have been asked about: when the call was made, when it was decided"
        " again, or when its client asked for or used a permit.",
        after="bypass rule? permit?",
    ),
    "rules.tried": Shape(
        "Rules on trial matched a call, which they did not decide.", after="rules version server arguments_sha256"
    ),
    "prompt.changed": Shape("A prompt's definition is another.", "digest", "digest"),
    "resources.changed": Shape("Resources of a server are defined differently.", after="count uris"),
    # people
    "person.added": Shape("A person got an account, or a part in this tenant.", after="role groups"),
    "person.removed": Shape("A person has no part in this tenant any more.", before="role groups"),
    "person.role.changed": Shape("A person's role or groups are others.", "role groups", "role groups"),
    "person.enabled": Shape("A person may sign in again.", "active", "active"),
    "person.disabled": Shape("A person may not sign in.", "active", "active"),
    "person.password.set": Shape("An admin gave a person a new password."),
    "person.password.changed": Shape("A person chose a new password."),
    "person.away": Shape(
        "A person said until when they are away, and who is their deputy: empty for nobody.",
        "until deputy",
        "until deputy",
    ),
    "person.back": Shape("A person said that they are back: nobody decides for them any more.", "until deputy"),
    "person.factor.added": Shape("A person set up a second factor.", after="factor codes"),
    "person.factor.removed": Shape(
        "A person has a second factor no more: they removed it, or an admin did.", before="factor"
    ),
    "person.sessions.ended": Shape(
        "Browsers in which a person was signed in were signed out, since their second factor was set up or removed.",
        after="sessions",
    ),
    "person.codes.renewed": Shape("A person made other recovery codes.", after="codes"),
    "person.code.used": Shape(
        "A person used a recovery code, of which `left` are left: to sign in, or to approve a call.", after="left"
    ),
    "person.code.refused": Shape("A wrong code of a second factor, at sign-in after the right password, or later."),
    "person.signed.in": Shape("A person signed in."),
    "person.signed.out": Shape("A person signed out."),
    "person.refused": Shape("A wrong password, a name that is nobody's, or an account that is disabled."),
    "access.denied": Shape("Somebody known asked for what they may not do.", after="lacking"),
    # clients, their tokens and applications
    "client.added": Shape("A client was added before its first token or call.", after="issuer subject client_id"),
    "client.enabled": Shape("A client may call again."),
    "client.disabled": Shape("A client is locked out."),
    "client.waiting.changed": Shape(
        "An admin changed how a client's plain calls wait.", "patience_ms hub_tools", "patience_ms hub_tools"
    ),
    "token.issued": Shape(
        "A token was made, by hand or at a sign-in.", after="prefix scopes client_id? days? seconds?"
    ),
    "token.refreshed": Shape("An application got its next token.", after="prefix scopes client_id seconds"),
    "token.revoked": Shape("A token was ended before its time.", after="prefix"),
    "token.reused": Shape("A refresh token came a second time; the sign-in was ended.", after="person client_id"),
    "code.reused": Shape("A code came a second time; the sign-in was ended.", after="person client_id"),
    "consent.given": Shape(
        "A person allowed an application to act for them.", "scopes", "client_id scopes leads_back_to"
    ),
    "consent.refused": Shape("A person said no to an application.", after="client_id asked"),
    "consent.revoked": Shape("What a person allowed an application was taken back.", before="person scopes"),
    "application.added": Shape("An admin registered an application.", after=_APPLICATION),
    "application.registered": Shape("An application registered itself.", after=_APPLICATION),
    "application.changed": Shape("An application's name or addresses are others.", _APPLICATION, _APPLICATION),
    "application.secret.renewed": Shape("An application has a new secret."),
    "application.removed": Shape("An application was forgotten.", before=_APPLICATION),
    "application.blocked": Shape("An application is locked out."),
    "application.unblocked": Shape("An application may sign people in again."),
    # receivers of news
    "webhook.added": Shape("An address gets news of events from now on.", after=_WEBHOOK),
    "webhook.changed": Shape(
        "A webhook gets other news, or has another name. `moved`: its address is another.",
        _WEBHOOK,
        f"{_WEBHOOK} moved",
    ),
    "webhook.enabled": Shape("A webhook gets news again."),
    "webhook.disabled": Shape("A webhook gets no news any more: somebody, or its receiver, wanted it so."),
    "webhook.removed": Shape("A webhook was removed, with its address, secret and log.", _WEBHOOK),
    "webhook.secret.renewed": Shape("A webhook has a new secret; the one before signs too for a day."),
    "webhook.tested": Shape("Somebody sent a test to a webhook."),
    "webhook.sent.again": Shape("Somebody had a message sent to a webhook again.", after="message"),
    "notices.chosen": Shape("Somebody chose what they are told, and when.", _CHOICES, _CHOICES),
    "address.changed": Shape(
        "Somebody gave another address for messages on a channel, or none. It counts once it is confirmed.",
        _REACHED,
        _REACHED,
    ),
    "address.confirmed": Shape("Somebody confirmed the address that their messages go to.", after="channel"),
    "address.tested": Shape("Somebody sent themselves a test.", after="channel"),
    "address.ended": Shape("A link in a message was used to end all that go to its address.", _REACHED, _REACHED),
    "browser.added": Shape("Somebody had a browser notified.", after="label host"),
    "browser.removed": Shape("Somebody had a browser notified no more.", "label host"),
    "browser.gone": Shape("A push service knows a browser no more, so it is notified no more.", "label host"),
    # the log itself
    "audit.exported": Shape("Somebody took events away.", after="query up_to"),
    "audit.archived": Shape(
        "The oldest part of the log was written to a file, and its events are in that file alone.",
        after="to_xid link events seals until file sha256 ahead ahead_digest signature",
    ),
    "audit.moved": Shape(
        "The log goes on in another cluster.", after="cluster before sealed_to shift late first last signature"
    ),
    "audit.verified": Shape(
        "Somebody compared events with their seals.", after="ok events seals problem full seconds? mark?"
    ),
}


def unlike(action: str, before: Collection[str] | None, after: Collection[str] | None) -> str:
    """Text that says how an event with these fields differs from its `Shape` in `EVENTS`; empty if it does not."""
    shape = EVENTS.get(action)
    if shape is None:
        return f"no event is called {action}"
    for what, fields, given in (("before", shape.before, before), ("after", shape.after, after)):
        known = fields.split()
        if "*" in known:
            continue
        required = {name for name in known if not name.endswith("?")}
        found = set(given or ())
        if found - {name.removesuffix("?") for name in known} or required - found or (given is None) != (not known):
            return f"{action} has {fields or 'nothing'} in `{what}`, not {' '.join(sorted(found)) or 'nothing'}"
    return ""
