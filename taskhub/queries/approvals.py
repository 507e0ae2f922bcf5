"""What an approval is about, besides the call's arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskhub.queries._read import loaded, read


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """What is approved with a question. `definition` is the tool's as it was when the approval was
    asked for, and `before` as it was when the call was approved last, by `approved_by`; both are `None`
    where there is none. Digests are SHA-256 in hex, empty where they were not kept."""

    definition: dict[str, Any] | None
    definition_digest: str
    arguments_digest: str
    came_along: dict[str, Any]
    """Answers that came with the call, by the key of the question they are for."""
    before: dict[str, Any] | None
    approved_by: tuple[str, ...]


def approved_call(question_id: int) -> ApprovedCall | None:
    """Of an approval, open or not; `None` for any other question."""
    found = read(
        """
        SELECT q.definition, coalesce(encode(q.definition_digest, 'hex'), ''), encode(t.arguments_digest, 'hex'),
               t.answers, p.definition,
               ARRAY(SELECT d.actor FROM decision d WHERE d.question_id = p.id AND d.verdict = 'approve' ORDER BY d.id)
        FROM question q JOIN task t ON t.id = q.task_id
        LEFT JOIN LATERAL (SELECT o.id, o.definition FROM question o WHERE o.task_id = q.task_id AND o.kind = 'approval'
                           AND o.state = 'answered' AND o.id < q.id ORDER BY o.id DESC LIMIT 1) AS p ON true
        WHERE q.id = %s AND q.kind = 'approval'
        """,
        [question_id],
    )
    if not found:
        return None
    definition, digest, arguments, came_along, before, actors = found[0]
    return ApprovedCall(
        definition=loaded(definition),
        definition_digest=digest,
        arguments_digest=arguments,
        came_along=loaded(came_along) or {},
        before=loaded(before),
        approved_by=tuple(actors),
    )
