"""The rules of the 2026 wire: `T26-*` the tasks extension, `B26-*` the base protocol and its transport."""

from __future__ import annotations

from typing import Final

from tests.protocol.sources import (
    BASE26,
    CACHING26,
    CANCEL26,
    CHANGES26,
    COMPLETE26,
    CONF,
    DISCOVER26,
    ELICIT26,
    EXT,
    HTTP26,
    LISTEN26,
    LOGGING26,
    MRTR26,
    PAGES26,
    PROGRESS26,
    RESOURCES26,
    S2663,
    SCHEMA26,
    TOOLS26,
    VERSION26,
    Rule,
    rules,
)

STATELESS_RULES: Final[dict[str, Rule]] = {
    **rules(
        EXT,
        {
            "T26-01": (
                "`server/discover` lists the extension `io.modelcontextprotocol/tasks` among its capabilities, with "
                "empty settings."
            ),
            "T26-02": "The `tasks` capability of 2025-11-25 is not listed on this wire.",
            "T26-03": (
                "Whether a caller knows tasks is read from the `_meta` of this request; nothing is remembered from "
                "earlier ones."
            ),
            "T26-04": (
                "A request that does not declare the extension never gets a task; where the tool allows it, the call "
                "runs to its result."
            ),
            "T26-05": (
                "A tool that runs only as a task refuses a call without the extension before it starts: 400, -32021, "
                "what is missing in `data`."
            ),
            "T26-06": (
                "`tasks/get`, `tasks/update` and `tasks/cancel` without the extension are refused with 400 and -32021 "
                "before the task is looked up."
            ),
            "T26-07": (
                "`subscriptions/listen` with `taskIds` and without the extension is refused with 400 and -32021, in "
                "JSON and not as a stream."
            ),
            "T26-08": (
                "A caller that declares only the `tasks` capability of 2025-11-25 counts as one without the extension."
            ),
            "T26-09": (
                "The server alone decides what becomes a task; the `task` parameter of 2025-11-25 is an unknown field."
            ),
            "T26-10": "Only `tools/call` may answer with a task.",
            "T26-11": "A call may be answered with its result at once although the caller declared the extension.",
            "T26-12": "The handle is flat: `resultType` is `task`, and the fields of the task stand beside it.",
            "T26-13": "The handle holds no result, no error, no questions and no `requestState`.",
            "T26-14": "`resultType` is `task` on the handle and on nothing else.",
            "T26-15": (
                "`ttlMs` is always there: a positive integer counted from the creation, or null for no limit; it may "
                "change."
            ),
            "T26-16": (
                "`pollIntervalMs` may be there, a positive integer that may change; the names of 2025-11-25 are not."
            ),
            "T26-17": "`createdAt` and `lastUpdatedAt` stand in every message that holds a task, as ISO 8601.",
            "T26-18": "The handle is sent when the task is durable: any process finds it from then on.",
            "T26-19": (
                "The server makes the id: a string that cannot be guessed, of characters that may stand in a header."
            ),
            "T26-20": (
                "Every request about a task is checked against its owner; somebody else's task is answered like an "
                "unknown one."
            ),
            "T26-21": "A task has one of five statuses, and one that has ended never changes again.",
            "T26-22": "`tasks/get` answers the flat task with what belongs to its status, and changes nothing.",
            "T26-23": "A `working` task carries no result, no error and no questions.",
            "T26-24": "An `input_required` task carries all its open questions, on every poll until they are answered.",
            "T26-25": "A `completed` task carries exactly the result that the plain call would have had.",
            "T26-26": "A result with `isError` is `completed`, never `failed`.",
            "T26-27": "A `failed` task carries the JSON-RPC error and no result.",
            "T26-28": "A `cancelled` task carries no result, no error and no questions.",
            "T26-29": "`requestState` stands on no message about a task.",
            "T26-30": "The key of a question is used once in the life of a task.",
            "T26-31": "A task asks only what the caller that created it declared to be able to answer.",
            "T26-32": "`tasks/update` is answered with an empty acknowledgement.",
            "T26-33": "Answers to unknown, answered or superseded questions are ignored, and acknowledged.",
            "T26-34": "Some of the open questions may be answered; the next poll shows the others.",
            "T26-35": "After the last answer the task is `input_required` no more.",
            "T26-36": "The first answer to a question counts; one that does not fit leaves the question open.",
            "T26-37": "A missing or malformed `taskId` or `inputResponses` is -32602.",
            "T26-38": (
                "`tasks/cancel` is answered with an empty acknowledgement; the task may go on for a while, or even "
                "complete."
            ),
            "T26-40": "An id that is unknown, expired or deleted is -32602.",
            "T26-41": "`tasks/result` is not found here: 404 and -32601, whatever its headers say.",
            "T26-42": "`tasks/list`, `tasks/delete` and every other method under `tasks/` are not found.",
            "T26-44": "A failure inside a task method is -32603, never half a task.",
            "T26-45": "A task stays readable until its `ttlMs` is over, and may be deleted after.",
            "T26-46": "Polling faster than `pollIntervalMs` may be limited.",
            "T26-47": (
                "What a tool asks before it runs is asked in rounds of `tools/call`; the handle comes after the last, "
                "with no state of a round."
            ),
            "T26-48": "Neither `notifications/cancelled` nor a closed stream cancels a task whose handle was sent.",
            "T26-49": (
                "`notifications/tasks` goes only to streams that named the task, and shows it as `tasks/get` would."
            ),
            "T26-50": "The acknowledgement of a stream names only the tasks that the caller may see.",
            "T26-51": "A task sends no progress and no log lines, on no stream; its status message says how far it is.",
            "T26-52": "A stream begins with the task as it stands, and tells each change that can be seen.",
            "T26-53": "`Mcp-Name` repeats the `taskId`, `Mcp-Method` the method; one that differs is 400 and -32020.",
            "T26-54": "On a session of 2025-11-25 the extension gives nobody a task.",
            "T26-55": (
                "The names under `tasks/`, `notifications/tasks/` and the result type `task` belong to the extension."
            ),
        },
    ),
    **rules(
        CONF,
        {
            "T26-39": "Cancelling a task that has ended is acknowledged and changes nothing.",
        },
    ),
    **rules(
        S2663,
        {
            "T26-43": (
                "A caller that declares the `tasks` capability of 2025-11-25 may still read and cancel its tasks of "
                "that revision."
            ),
        },
    ),
    **rules(
        SCHEMA26,
        {
            "T26-56": "Tools are listed without `execution.taskSupport`.",
        },
    ),
    **rules(
        BASE26,
        {
            "T26-57": "A feature that needs an extension degrades or is refused where the caller does not have it.",
        },
    ),
    **rules(
        HTTP26,
        {
            "B26-01": "A POST holds one JSON-RPC request or notification; arrays and responses are 400 and -32600.",
            "B26-02": "A foreign `Origin` or `Host` is refused before anything else.",
            "B26-03": "A request accepts both JSON and event streams, or is 406.",
            "B26-04": "A body is `application/json` or 415, and within its limit or 413.",
            "B26-06": "A notification that is accepted is 202 without a body; one that is refused is 4xx.",
            "B26-07": "A request is answered with one JSON object, or with a stream that ends with the response.",
            "B26-08": "A stream is not buffered, is kept alive by comments, and sends one compact message per event.",
            "B26-09": "The stream of a request carries notifications about it and its response, and never a request.",
            "B26-11": "There is nothing to resume and no session: `Last-Event-ID` and `Mcp-Session-Id` are ignored.",
            "B26-12": "GET and DELETE belong to sessions; without one they are 405.",
            "B26-20": (
                "`MCP-Protocol-Version` is on every request and equal to the version in `_meta`, or 400 and -32020."
            ),
            "B26-21": "`Mcp-Method` is on every request and equal to its method, or 400 and -32020.",
            "B26-22": (
                "`Mcp-Name` repeats the tool, prompt, resource or task that the request names, or 400 and -32020."
            ),
            "B26-23": "Names of headers ignore case, values do not; a routing header that comes twice is refused.",
            "B26-24": "A value may come in Base64 between its marks, which is decoded strictly before it is compared.",
            "B26-25": (
                "A parameter may ask to be mirrored in a header by `x-mcp-header`: a plain value under `properties`, "
                "a unique token."
            ),
            "B26-26": (
                "A mirrored argument stands in its header with the same value, integers by number; a missing argument "
                "has no header."
            ),
            "B26-31": "A method that is unknown on this wire is 404 and -32601, those of sessions included.",
        },
    ),
    **rules(
        BASE26,
        {
            "B26-05": (
                "Broken JSON is -32700, an envelope that is none -32600, both with 400 and with an id only if one was "
                "read."
            ),
            "B26-13": "Nothing is inferred from earlier requests or from the connection.",
            "B26-14": "An error carries the id of its request, number or string as it was.",
            "B26-27": (
                "`_meta` holds the version and the capabilities of the client on every request, or 400 and -32602."
            ),
            "B26-28": "Everything else in `_meta` is optional; unknown keys are ignored.",
            "B26-30": (
                "A request that needs what its client did not declare is 400 and -32021, with the missing "
                "capabilities as an object."
            ),
            "B26-33": "Only codes that the specification defines are sent from its range; our own lie outside.",
            "B26-40": "Every result says its `resultType`.",
            "B26-41": "Every result names the server in `_meta`, and not in its body.",
        },
    ),
    **rules(
        CANCEL26,
        {
            "B26-10": "A caller that closes the stream cancels its request.",
            "B26-82": "Over HTTP a request is cancelled by leaving, and by nothing else.",
        },
    ),
    **rules(
        VERSION26,
        {
            "B26-29": (
                "A version that is not spoken is 400 and -32022, with those that are and the one that was asked for."
            ),
        },
    ),
    **rules(
        CONF,
        {
            "B26-32": (
                "The checks come in one order, from the JSON to the parameters, so that each fault has one answer."
            ),
            "B26-76": "A change is told within a second, whichever process it happens in.",
        },
    ),
    **rules(
        DISCOVER26,
        {
            "B26-42": "`server/discover` tells the versions, the capabilities and how long both may be kept.",
            "B26-43": "What is declared works, and what works is declared.",
        },
    ),
    **rules(
        CACHING26,
        {
            "B26-44": (
                "Discovery, lists and reads say how long and for whom they may be kept; unfinished results do not."
            ),
        },
    ),
    **rules(
        TOOLS26,
        {
            "B26-45": "A list depends on who asks and on nothing else, and its order is stable.",
            "B26-47": (
                "A tool has a name, a description and a schema whose root is an object; its other keywords come "
                "through unchanged."
            ),
            "B26-48": (
                "Arguments are validated by the schema's own dialect, within limits and without fetching references."
            ),
            "B26-49": "An unknown tool is -32602; a call that fails in its own terms is a result with `isError`.",
        },
    ),
    **rules(
        PAGES26,
        {
            "B26-46": "A cursor is opaque, comes only when there is more, and is -32602 if it is none of ours.",
        },
    ),
    **rules(
        RESOURCES26,
        {
            "B26-50": "A resource that does not exist is -32602 with its address, never empty contents.",
        },
    ),
    **rules(
        COMPLETE26,
        {
            "B26-51": "`completion/complete` suggests at most 100 values for an argument of a prompt or of a template.",
        },
    ),
    **rules(
        MRTR26,
        {
            "B26-60": (
                "Only `tools/call`, `prompts/get` and `resources/read` may answer with questions, a state, or both."
            ),
            "B26-61": (
                "A round asks by elicitation, by sampling or for roots, under keys that are unique in the request."
            ),
            "B26-62": "Only what this request declares is asked; an elicitation without modes is a form.",
            "B26-63": (
                "The retry is a request of its own with the same parameters, the answers and the state as it was."
            ),
            "B26-64": "The state is sealed and bound to the caller and the request; one that is not ours is refused.",
            "B26-65": "A missing answer is asked for again, an unknown one ignored; what has no shape never counts.",
            "B26-66": "Nothing is held between two rounds, for the retry may never come.",
            "B26-67": "An answer has the shape of its kind: an action, a message of a model, or roots.",
        },
    ),
    **rules(
        LISTEN26,
        {
            "B26-70": "`subscriptions/listen` says in its filter what it wants to hear of; each part is optional.",
            "B26-71": "The stream begins with an acknowledgement of what counts of the filter.",
            "B26-72": "Everything on the stream carries the id of the request that opened it, in the same type.",
            "B26-73": "The stream carries what was asked for, and no progress and no log lines.",
            "B26-74": "A stream that the server ends gets its result first.",
            "B26-75": "A client may hold several streams; nothing is replayed on a new one.",
            "B26-77": "Where nothing could be told, the method may be unknown.",
        },
    ),
    **rules(
        PROGRESS26,
        {
            "B26-80": (
                "Progress goes only to who gave a token, on the stream of that request, grows, and ends before the "
                "response."
            ),
        },
    ),
    **rules(
        LOGGING26,
        {
            "B26-81": "Log lines go only to who asked for a level, from that level on, on the stream of that request.",
        },
    ),
    **rules(
        ELICIT26,
        {
            "B26-83": (
                "A form is a flat object of strings, numbers, booleans and choices; secrets are asked for on a page."
            ),
        },
    ),
    **rules(
        CHANGES26,
        {
            "B26-84": (
                "What the wire has lost is unknown on it: `initialize`, `ping`, log levels, subscriptions, GET, "
                "requests of the server."
            ),
        },
    ),
}
