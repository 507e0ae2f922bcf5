"""The rules of SEP-2557 on its mount: `T2557-*`."""

from __future__ import annotations

from typing import Final

from tests.protocol.sources import S2557, S2663, Rule, rules

MOUNT_RULES: Final[dict[str, Rule]] = {
    **rules(
        S2557,
        {
            "T2557-01": "Any call of a tool may be answered with a task, whatever the client declares.",
            "T2557-02": "The same call may be answered with its result at once.",
            "T2557-03": "No capability about tasks is told or read.",
            "T2557-04": "The methods are `tasks/get` and `tasks/cancel`; every other one is not found.",
            "T2557-05": "`tasks/cancel` is there even where no tasks are made.",
            "T2557-06": "`resultType` is `complete`, `incomplete` or `task`.",
            "T2557-07": "The handle nests the task under `task`, without result, error or questions.",
            "T2557-08": "The handle is sent when `tasks/get` would find the task.",
            "T2557-09": "`ttl` counts seconds, `pollInterval` milliseconds, and a task may carry a `requestState`.",
            "T2557-10": (
                "`tasks/get` answers the flat task with what belongs to its status, and takes answers and a state."
            ),
            "T2557-11": "Result and error stand on the status they belong to, and on no other.",
            "T2557-12": "Answers are taken in before the reply, which shows what came of them.",
            "T2557-13": "The same answers sent again do no harm.",
            "T2557-14": "The client sends back the newest `requestState` it has, if there is one.",
            "T2557-15": "The state may change with each reply; an older one is still taken.",
            "T2557-16": "The state is encrypted and bound to task and owner; one that was altered is refused.",
            "T2557-17": "`tasks/cancel` answers the task, whose status may come later.",
            "T2557-18": (
                "`Mcp-Method` is on every message and `Mcp-Name` repeats the task's id; one that differs is 400 and "
                "-32020."
            ),
            "T2557-19": "The server sends no requests, and clients host no tasks.",
            "T2557-20": "`notifications/tasks/status` may tell the task with its payload.",
            "T2557-21": (
                "There are five statuses; a result with `isError` is `completed`, an error of the protocol `failed`."
            ),
            "T2557-22": "Tasks belong to their caller, and ids cannot be guessed.",
        },
    ),
    **rules(
        S2663,
        {
            "T2557-23": "What the published extension changed stays on this mount, and shows nowhere on `/mcp`.",
        },
    ),
}
