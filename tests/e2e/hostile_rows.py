"""Fills a tenant of its own with the texts of `tests.support.hostile`, wherever others can write one. A program, which
runs beside a hub; it prints the addresses of the pages that show them."""

from __future__ import annotations

import json
import os
import sys

import django

TENANT, ADMIN = "hostile", "hostile-admin"


def main() -> None:
    """All of it in one transaction, so that no worker of the hub takes a task on its way to its state."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "taskhub.config.settings"
    django.setup()
    from django.db import transaction

    with transaction.atomic():
        pages = _fill()
    json.dump(pages, sys.stdout)


def _fill() -> list[str]:
    from taskhub.core.states import QuestionKind
    from taskhub.store.models import (
        AuthContext,
        Decision,
        Delivery,
        Notice,
        Offer,
        Question,
        RuleVersion,
        Server,
        TaskLog,
        Tool,
        Webhook,
        Worker,
    )
    from tests.factories import (
        make_context,
        make_event,
        make_person,
        make_question,
        make_server,
        make_task,
        make_tenant,
        make_tool,
    )
    from tests.support.hostile import LONG, TABLE, around

    texts = [around(one.stored) for one in TABLE] + [around(text) for text in LONG]
    short = [text for text in texts if len(text) < 40]
    tenant = make_tenant(TENANT)
    make_person("admin", tenant, username=ADMIN)
    server = make_server(tenant, "hostile-server")
    pages = [
        "/",
        "/tasks/",
        "/inbox/",
        "/inbox/?queue=all",
        "/news/",
        "/clients/",
        "/servers/",
        "/workers/",
        "/audit/",
        "/rules/",
    ]
    pages += [
        "/settings/",
        "/accounts/",
        "/settings/webhooks/",
        "/rules/versions/",
        "/rules/versions/1/",
        "/clients/connect",
    ]

    arguments = {text: text for text in texts}
    schema = {"type": "object", "properties": {text: {"type": "string", "description": text} for text in texts}}
    # Without the text whose letters show that Cyrillic and East Asian ones are meant: it explains those on its line.
    joined = "\n".join(text for text in texts if "\u4e16" not in text)
    shown = {
        "title": joined,
        "description": joined,
        "inputSchema": schema,
        "annotations": dict.fromkeys(texts[:20], texts[20]),
    }
    tool = make_tool(server, "hostile_tool")
    Tool.objects.filter(pk=tool.id).update(definition={"name": tool.name, **shown})
    Tool.objects.bulk_create(
        Tool(
            server=server,
            name=text,
            exposed_name=text,
            definition={"name": text, "title": text, "description": text},
            digest="0" * 64,
            rejected=text,
        )
        for text in short
    )
    Offer.objects.bulk_create(
        Offer(
            server=server,
            kind="prompt",
            key=text,
            exposed_name=f"p {text}",
            definition={"name": text, "title": text, "description": text},
            digest="0" * 64,
        )
        for text in short
    )
    Server.objects.filter(pk=server.pk).update(
        problem=joined[:2000],
        state="unreachable",
        info={"name": texts[0], "version": texts[1], "title": texts[2]},
        enabled=True,
    )
    pages += [f"/servers/{server.pk}/?all", f"/servers/{server.pk}/?tool={tool.id}", f"/servers/{server.pk}/changes"]
    pages += [f"/servers/{server.pk}/tools/{tool.id}/versions"]

    first = make_context(tenant, "hostile-client")
    contexts = [first, *(make_context(tenant, text) for text in short)]
    for context, text in zip(contexts[1:], short, strict=True):
        AuthContext.objects.filter(pk=context.pk).update(
            client_info={"name": text, "version": text}, client_capabilities={}, last_seen_at="2026-01-01T00:00Z"
        )
    pages += [f"/clients/{contexts[5].pk}/"]

    result = {
        "content": [
            *({"type": "text", "text": text} for text in texts[:30]),
            *({"type": "resource_link", "uri": text, "title": text, "description": text} for text in texts[30:60]),
            *({"type": "resource", "resource": {"uri": text, "text": text}} for text in texts[60:]),
        ],
        "structuredContent": {text: text for text in texts[:20]},
    }
    done = make_task(first, tool, state="finished", arguments=arguments, result=result)
    TaskLog.objects.bulk_create(TaskLog(task_id=done.id, level="info", text=text) for text in texts)
    failed = make_task(
        first, tool, state="finished-error", result={"content": [{"type": "text", "text": joined}], "isError": True}
    )
    form = {
        "type": "object",
        "properties": {f"f{n}": {"type": "string", "title": text, "description": text} for n, text in enumerate(short)},
    }
    asks = {
        "form": make_question(params={"message": joined, "requestedSchema": form}),
        "url": make_question(params={"mode": "url", "message": joined, "url": f"https://a.example/{texts[40]}"}),
        "sampling": make_question(
            QuestionKind.SAMPLING,
            params={
                "systemPrompt": joined,
                "messages": [{"role": text, "content": {"type": "text", "text": text}} for text in texts],
            },
        ),
        "approval": make_question(
            QuestionKind.APPROVAL,
            params={"tool": texts[0], "server": texts[1], "decided": {"rule": texts[2], "version": 1, "named": {}}},
            quorum=2,
        ),
    }
    tasks = [done, failed]
    tasks += [
        make_task(first, tool, state="input_required", arguments=arguments, question=ask) for ask in asks.values()
    ]
    for context, text in zip(contexts[1:], short, strict=True):
        question = make_question(params={"message": text, "requestedSchema": form})
        make_task(context, tool, state="input_required", arguments={"text": text}, question=question)
    for task in tasks:
        pages += [
            f"/tasks/{task.public_id}/?view={view}" for view in ("summary", "timeline", "questions", "log", "wire")
        ]
    for row in Question.objects.filter(task_id__in=[task.id for task in tasks]):
        pages.append(f"/inbox/{row.pk}/")
        if row.kind == QuestionKind.APPROVAL:
            Decision.objects.create(question=row, actor=short[0], verdict="approve", reason=short[1], door="web")
    RuleVersion.objects.create(
        tenant=tenant,
        number=1,
        rules=[{"name": text, "when": "", "then": "allow", "words": text, "group": ""} for text in short[:40]],
        digest="0" * 64,
        made_by=short[3],
        reason=short[4],
    )
    for text in short:
        event = make_event(tenant, actor=text, target=text, reason=text, before={text: text}, after={text: text})
    pages.append(f"/audit/?event={event}")
    hook = Webhook.objects.create(
        tenant=tenant,
        name=short[5],
        sealed_url=b"",
        origin="https://a.example",
        kinds=["task.ended"],
        sealed_secret=b"",
        enabled=False,
        disabled_why=short[6],
    )
    for n, text in enumerate(short[:20]):
        notice = Notice.objects.create(
            public_id=f"msg_{n}",
            tenant=tenant,
            kind="test",
            channel="webhook",
            webhook=hook,
            body="{}",
            state="failed",
            ended_at="2026-01-01T00:00Z",
            problem=text,
            attempts=1,
        )
        Delivery.objects.create(notice=notice, number=1, status=500, answer=text, problem=text)
    pages.append(f"/settings/webhooks/{hook.pk}/")
    Worker.objects.bulk_create(Worker(name=f"{text}", host=text, pid=1, version="1", slots=1) for text in short[:20])
    return pages


if __name__ == "__main__":
    main()
