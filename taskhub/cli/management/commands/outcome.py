"""`manage.py outcome list|rule`: tasks whose outcome is unknown."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from taskhub.cli.database import need_database
from taskhub.cli.mcpjson import text_of
from taskhub.control import questions
from taskhub.control.caller import Caller, of_shell
from taskhub.core.errors import TaskHubError
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.answer import AnswerOutcome
from taskhub.domain.questions.rulings import lost_call, unruled
from taskhub.lib.signs import spelled, visible_json


class Command(BaseCommand):
    """`rule` rules at once, without the confirmation that the console asks for."""

    help = "List tasks whose outcome is unknown, and rule whether their tools ran."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        found = verbs.add_parser("list", help="the tasks that wait for a ruling")
        found.add_argument("--json", action="store_true", help="as JSON")
        rule = verbs.add_parser("rule", help="say whether the tool of a task ran")
        rule.add_argument("task", help="the task's id")
        verdict = rule.add_mutually_exclusive_group(required=True)
        verdict.add_argument("--ran", action="store_true", help="it ran: the task ends")
        verdict.add_argument("--did-not-run", action="store_true", help="it did not: the tool runs again")
        rule.add_argument("--reason", required=True, help="how you know; the caller sees it")
        rule.add_argument("--result", metavar="FILE", help="what the tool answered; `-` reads it from standard input")
        rule.add_argument(
            "--result-json", action="store_true", help="it is a JSON object; always where the tool has an output schema"
        )
        for verb in (found, rule):
            verb.add_argument("--data-dir", help="as for `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand, in the default tenant."""
        with need_database():
            try:
                if options["verb"] == "list":
                    self._list(of_shell(), as_json=options["json"])
                else:
                    self._rule(of_shell(), options)
            except TaskHubError as error:
                raise CommandError(spelled(error.message)) from None

    def _list(self, caller: Caller, *, as_json: bool) -> None:
        rows = unruled(caller.tenant_id)
        if as_json:
            found = [
                {
                    "task": row.public_id,
                    "tool": row.tool_name,
                    "server": row.server,
                    "client": row.client,
                    "since": row.opened_at.isoformat(),
                    "until": None if row.due_at is None else row.due_at.isoformat(),
                    "message": row.message,
                }
                for row in rows
            ]
            self.stdout.write(visible_json(found))
        elif not rows:
            self.stdout.write("No task waits for a ruling.")
        for row in () if as_json else rows:
            since = f"{row.opened_at:%Y-%m-%d %H:%M} UTC"
            self.stdout.write(f"{row.public_id}  {since}  {spelled(row.tool_name)}  {spelled(row.client)}")
            self.stdout.write(f"    {spelled(row.message)}")

    def _rule(self, caller: Caller, options: dict[str, Any]) -> None:
        task, ran = options["task"], options["ran"]
        number = questions.find_question_of_task(caller, task, "")
        item = None if number is None else questions.find_question(caller, number)
        if item is None or item.kind is not QuestionKind.OUTCOME:
            raise CommandError(f"No question about the outcome of task {task} is open.")
        given: dict[str, str] = {}
        if options["result"] is not None:
            if not ran:
                raise CommandError("What did not run has no result: --result goes with --ran.")
            structured = options["result_json"] or lost_call(item.id).output_schema is not None
            given["json_text" if structured else "text"] = text_of(options["result"])
        outcome = questions.rule_outcome(caller, item, ran=ran, reason=options["reason"], **given)
        if outcome is not AnswerOutcome.ANSWERED:
            raise CommandError(f"Too late: the question about task {task} was closed meanwhile.")
        self.stdout.write(f"Task {task} has ended: its tool ran." if ran else f"Task {task} is queued to run again.")
