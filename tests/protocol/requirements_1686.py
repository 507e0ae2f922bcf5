"""The rules of SEP-1686 on a session: `T1686-*`."""

from __future__ import annotations

from typing import Final

from tests.protocol.sources import S1686, Rule, rules

CLIENT_ID_RULES: Final[dict[str, Rule]] = {
    **rules(
        S1686,
        {
            "T1686-01": (
                "The key `modelcontextprotocol.io/task` in `_meta` makes a request a task, with an id and perhaps a "
                "`keepAlive`."
            ),
            "T1686-02": "Where tasks are not supported, the key is ignored and the request runs as ever.",
            "T1686-03": "The server declares tasks; the client need not.",
            "T1686-04": "The client makes the id: it is unique among that client's own, and no secret.",
            "T1686-05": "An id that was used before is -32602, and nothing runs.",
            "T1686-06": "The first status is `submitted`.",
            "T1686-07": "A task never goes back to `submitted`, and one that has ended never changes.",
            "T1686-08": "`notifications/tasks/created` comes first on the stream of the request.",
            "T1686-09": (
                "The request still gets its ordinary response when the work ends; a lost connection cancels nothing."
            ),
            "T1686-10": "`tasks/get` answers the flat task with the `keepAlive` in force.",
            "T1686-11": "`pollFrequency` may be given, in milliseconds.",
            "T1686-12": "A failed task says why in `error`.",
            "T1686-13": "`tasks/result` answers for a completed task only, at once, and as often as it is asked.",
            "T1686-14": "`tasks/list` shows in pages what `tasks/get` would find.",
            "T1686-15": "`tasks/delete` makes a task unknown; it may be refused.",
            "T1686-16": "`keepAlive` counts from the end of the task.",
            "T1686-17": "What a task asks names it in `_meta`, and the task is `input_required` until all is answered.",
            "T1686-18": "Everything that belongs to a task names it in `_meta`.",
            "T1686-19": (
                "`notifications/cancelled` with the id of the request cancels the task; one that has ended stays."
            ),
            "T1686-20": (
                "A result with `isError` is `completed`; `failed` is an error of the protocol, `unknown` a lost state."
            ),
            "T1686-21": "An unknown id is -32602, a failure of ours -32603, both with 200.",
            "T1686-22": "Tasks belong to their caller, are limited and audited.",
        },
    ),
}
