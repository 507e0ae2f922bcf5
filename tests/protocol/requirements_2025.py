"""The rules of the 2025 wires: `T25-*` tasks of 2025-11-25, `B25-*` sessions and their transport,
`CH-*` tasks that the client hosts."""

from __future__ import annotations

from typing import Final

from tests.protocol.sources import (
    BASE25,
    CANCEL25,
    ELICIT25,
    HTTP25,
    LIFE25,
    LOGGING25,
    PAGES25,
    PING25,
    PROGRESS25,
    RESOURCES25,
    TASKS25,
    TOOLS25,
    Rule,
    rules,
)

SESSION_RULES: Final[dict[str, Rule]] = {
    **rules(
        TASKS25,
        {
            "T25-01": "`initialize` declares the parts of tasks that are supported, as objects.",
            "T25-02": "Where callers cannot be told apart, `tasks/list` is not declared and not found.",
            "T25-03": "What the client declares about hosting tasks is kept with the session.",
            "T25-04": (
                "A tool may say in `execution.taskSupport` whether it runs as a task: required, optional or forbidden."
            ),
            "T25-05": "A task asked of a tool that forbids it is -32601.",
            "T25-06": "A plain call of a tool that requires a task is -32601.",
            "T25-07": "`task` on a request that supports none is ignored.",
            "T25-08": (
                "`task` is an object, also an empty one, with an optional `ttl` in milliseconds; another shape is "
                "-32602."
            ),
            "T25-09": "The handle comes at once, nests the task under `task`, and holds no result.",
            "T25-10": "The handle may carry a text that the model is shown meanwhile.",
            "T25-11": "Messages that belong to a task name it in `_meta`, the handle too.",
            "T25-12": "The server makes the id, unique and not to be guessed.",
            "T25-13": "The first status is `working`.",
            "T25-14": "A task goes between `working` and `input_required` and to an end that never changes.",
            "T25-15": "Every task carries `createdAt` and `lastUpdatedAt`.",
            "T25-16": "The server may change the `ttl`, and always tells the one in force.",
            "T25-17": "When its `ttl` is over, a task may be deleted, and is unknown from then on.",
            "T25-18": "`pollInterval` may be given, in milliseconds.",
            "T25-19": "`tasks/get` answers the flat task, never its result.",
            "T25-20": "`tasks/get` is answered in JSON, not on a stream.",
            "T25-21": "`tasks/result` waits until the task has ended; who waits may leave without harm to it.",
            "T25-22": "`tasks/result` answers what the plain call would have: its result, or its error.",
            "T25-23": "The result names its task in `_meta`.",
            "T25-24": "The result may be fetched any number of times until the task expires.",
            "T25-25": "The result of a cancelled task is an error, told at once.",
            "T25-26": "`tasks/list` shows the caller's tasks in pages; a cursor that is none of ours is -32602.",
            "T25-27": "Get, list and cancel name their task by `taskId` alone and carry nothing about it in `_meta`.",
            "T25-28": "`tasks/cancel` answers the task, cancelled by then.",
            "T25-29": "A cancelled task stays cancelled, whatever its work comes to.",
            "T25-30": "A cancelled task may be deleted at once.",
            "T25-31": "Who waits for the result of a task that is cancelled is answered then.",
            "T25-33": "Cancelling a task that has ended is -32602 and names its status.",
            "T25-34": "An id that is unknown, expired or somebody else's is -32602; a failure of ours is -32603.",
            "T25-35": "A task belongs to who created it, on every method.",
            "T25-36": (
                "What a task asks is sent to the client as a request that names the task, when it is `input_required`."
            ),
            "T25-37": "The client's answer comes by POST, and the task goes on when nothing is open.",
            "T25-38": "A question whose stream has gone is sent again on the next one, under the same id.",
            "T25-39": "A client is asked only what it declared.",
            "T25-40": "`notifications/tasks/status` may tell the whole task on an open stream.",
            "T25-41": "A progress token is good until the task has ended, and not after.",
            "T25-42": "A result with `isError` makes the task `failed`, with its result still there.",
            "T25-43": "Tasks are limited per caller in number and time, and their use is audited.",
            "T25-44": "The wire has no `tasks/update` and no `tasks/delete`.",
            "T25-45": "The message of an error says what is the matter with the task.",
        },
    ),
    **rules(
        CANCEL25,
        {
            "T25-32": "`notifications/cancelled` ends a waiting request, and never a task.",
        },
    ),
    **rules(
        LIFE25,
        {
            "B25-01": (
                "`initialize` comes first, without a header for the version, and answers versions, capabilities and "
                "the server."
            ),
            "B25-02": "A version that is spoken is agreed to; to any other the newest with sessions is answered.",
            "B25-03": "Until `notifications/initialized` the server asks nothing.",
        },
    ),
    **rules(
        HTTP25,
        {
            "B25-04": "The session's id comes in a header of the answer: visible ASCII that cannot be guessed.",
            "B25-05": "A later request without a session is 400.",
            "B25-06": "A session that is unknown, ended or somebody else's is 404.",
            "B25-07": "DELETE ends a session; its tasks go on.",
            "B25-08": "The header for the version counts if it is there; one that is not spoken is 400.",
            "B25-09": "A POST holds one message; arrays are refused.",
            "B25-10": "A notification or a response is 202 without a body; a response to nothing is ignored.",
            "B25-11": "A request is answered in JSON, or on a stream that may carry requests of the server before.",
            "B25-12": "A stream begins with an id, so that it can be taken up again, and ends with its response.",
            "B25-14": "GET opens a stream for what belongs to no request.",
            "B25-15": "A message goes to one stream, and a response never to that of GET.",
            "B25-16": "A stream is taken up by `Last-Event-ID`, with its own later messages and no others.",
            "B25-17": "A foreign `Origin` is 403.",
            "B25-18": "A POST accepts both JSON and event streams, or is 406.",
            "B25-20": "Errors travel with 200, for 404 would say that the session is gone.",
        },
    ),
    **rules(
        CANCEL25,
        {
            "B25-13": (
                "A lost connection cancels nothing; `notifications/cancelled` cancels a request, and it gets no answer."
            ),
        },
    ),
    **rules(
        BASE25,
        {
            "B25-19": "An id of a request is used once in a session, by either side.",
            "B25-29": "Unknown parameters and unknown keys of `_meta` are ignored.",
        },
    ),
    **rules(
        ELICIT25,
        {
            "B25-21": (
                "The server asks what the client declared, on the stream of the request it serves or else on that of "
                "GET."
            ),
            "B25-22": "A page to visit may be asked for by an error, and its end told by a notification.",
        },
    ),
    **rules(
        PING25,
        {
            "B25-23": "`ping` and the other calls without an answer get an empty object.",
        },
    ),
    **rules(
        LOGGING25,
        {
            "B25-24": "`logging/setLevel` says from which level on the session gets log lines.",
        },
    ),
    **rules(
        PROGRESS25,
        {
            "B25-25": "Progress goes only to who gave a token, grows, and ends with the response or the task.",
        },
    ),
    **rules(
        RESOURCES25,
        {
            "B25-26": "A resource that does not exist is -32002; an unknown tool is -32602.",
        },
    ),
    **rules(
        PAGES25,
        {
            "B25-27": "Lists come in pages, and a cursor that is none of ours is -32602.",
        },
    ),
    **rules(
        TOOLS25,
        {
            "B25-28": (
                "Changes of lists and of subscribed resources are told on the stream of GET where they are declared."
            ),
        },
    ),
    **rules(
        TASKS25,
        {
            "CH-01": "A question is hosted as a task by clients that declare it, beside the kind of question itself.",
            "CH-02": "The version of the session is 2025-11-25.",
            "CH-03": "The question is sent with `task` on one stream: that of the request it serves, else that of GET.",
            "CH-04": "A question of a task names it in `_meta`, and the task is `input_required`.",
            "CH-05": "The client answers with a task of its own or the answer itself; an error stands in its place.",
            "CH-06": "The id is the client's, and is kept with the session apart from our own.",
            "CH-07": "The client's task is polled by requests, no faster than it says, until it ends or waits.",
            "CH-08": "One that waits for input is asked for its result early.",
            "CH-09": "The result of one that has ended is fetched, and has the shape of a plain answer.",
            "CH-10": "One is cancelled or listed only where the client declared that.",
            "CH-11": "A status notification of the client is a hint, and polling goes on.",
            "CH-12": "The direction of a message says whose task it is about.",
            "CH-13": "What was sent to a client outlives the process that sent it.",
            "CH-14": "A question whose stream has gone is sent again on the next, to one at a time.",
            "CH-15": "A task that the client has lost is an error in place of the answer.",
        },
    ),
    **rules(
        PROGRESS25,
        {
            "CH-16": "A progress token is good until the client's task has ended.",
        },
    ),
    **rules(
        BASE25,
        {
            "CH-17": "Ids of requests are unique for session and direction.",
        },
    ),
}
