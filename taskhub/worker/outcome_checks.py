"""Makes the checks of calls whose outcome is unknown: calls the read-only companion of the tool."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from taskhub.core.records import Actor, Claim
from taskhub.core.states import QuestionKind
from taskhub.domain.credentials.records import NeedsAuthorization
from taskhub.domain.tasks import checks
from taskhub.domain.tasks.checks import Check
from taskhub.lib.lanes import Lanes
from taskhub.upstream.call import call_tool
from taskhub.upstream.outcomes import Faulted, Finished, Postponed
from taskhub.upstream.pool import give_up
from taskhub.worker.servers import Servers

logger = logging.getLogger(__name__)


async def make_check(lanes: Lanes, servers: Servers, check: Check, actor: Actor) -> None:
    """Call the companion, and store its answer. If its server cannot be reached, it is called again later."""
    if check.problem:
        await lanes.run(checks.end_check, check, problem=check.problem, actor=actor)
        return
    pool = servers.pool(check.server_id)
    if pool is None:
        await lanes.run(checks.put_off, check, "Its server is being connected")
        return
    calling = asyncio.ensure_future(pool.run(call_tool(pool, _call(check), say=lambda line: None, ask=_nobody)))
    try:
        async with asyncio.timeout(checks.CHECK_SECONDS):
            outcome = await asyncio.shield(calling)
    except TimeoutError:
        await give_up(calling)
        await lanes.run(checks.put_off, check, f"No answer within {checks.CHECK_SECONDS:.0f} s")
        return
    except NeedsAuthorization as lapsed:
        await lanes.run(checks.put_off, check, lapsed.message)
        return
    match outcome:
        case Finished(result):
            await lanes.run(checks.end_check, check, result=result, actor=actor)
        case Faulted(error, unreached, _, lost) if unreached or lost:
            await lanes.run(checks.put_off, check, str(error["message"]))
        case Postponed(why):
            await lanes.run(checks.put_off, check, why)
        case Faulted(error):
            await lanes.run(checks.end_check, check, problem=str(error["message"]), actor=actor)
        case _:
            await lanes.run(checks.end_check, check, problem="It asks questions, which nobody answers.", actor=actor)


def _call(check: Check) -> Claim:
    return Claim(
        task_id=check.task_id,
        public_id=check.public_id,
        epoch=0,
        tenant_id=check.tenant_id,
        context_id=check.context_id,
        server_id=check.server_id,
        server_name=check.server_name,
        tool_id=check.companion_id,
        tool_name=check.name,
        arguments=check.arguments,
        answers=None,
        upstream_state=None,
        client_capabilities={},
        trace={},
        question_audience=None,
        run_seconds=int(checks.CHECK_SECONDS),
    )


async def _nobody(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("nobody answers questions of a check")
