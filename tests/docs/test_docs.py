"""The docs say what the code says: settings, commands, methods, errors, states, roles, limits, links."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from allauth.account import app_settings as allauth
from allauth.core.internal.ratelimit import parse_rates
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from taskhub.config import env
from taskhub.config import settings as config
from taskhub.core.names import APPROVALS_SCOPE, CALL_SCOPES, IDEMPOTENCY_KEY, MODE_HINT, SCOPES
from taskhub.core.permissions import PERMISSIONS
from taskhub.core.rules import Then
from taskhub.core.states import TRANSITIONS, Audience, Door, QuestionKind, QuestionState, Role, State, TaskMode
from taskhub.domain.clients.patience import KNOWN as PROGRAMS
from taskhub.protocol import errors
from taskhub.protocol.revisions.sep_2557 import methods as sep_2557
from taskhub.protocol.revisions.v2026_07_28 import VERSION
from taskhub.protocol.revisions.v2026_07_28.methods import KNOWN
from taskhub.protocol.wire.tasks import STATUS

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "taskhub" / "store" / "sql"
DOCS = ROOT / "docs"
API = (DOCS / "api" / "2026-07-28.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "bench").glob("*.md")])
PAGES_SHOWN = ("inbox", "task", "overview")
PICTURES_TO_TAKE = {f"docs/img/{name}-{scheme}.png" for name in PAGES_SHOWN for scheme in ("light", "dark")}
"""Made by tools/screenshot.py."""


def page(name: str) -> str:
    return (DOCS / name).read_text()


def rows(text: str, *heads: str) -> list[list[str]]:
    """The cells of every table whose first head cells are these."""
    found, taken = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            taken = False
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[: len(heads)] == list(heads):
            taken = True
        elif taken and set(line) - set("|-: "):
            found.append(cells)
    return found


# Settings ---------------------------------------------------------------------------------


def declared() -> dict[str, tuple[str, str]]:
    """Variable: (default, range), as `settings.py` reads it."""
    found = {}
    for node in ast.walk(ast.parse(Path(config.__file__).read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "env"
            and node.func.attr in ("text", "boolean", "integer", "words", "secret", "choice")
        ):
            name, *rest = (ast.literal_eval(argument) for argument in node.args if isinstance(argument, ast.Constant))
            bounds = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
            default = "" if node.func.attr == "secret" else str(rest[0])
            found.setdefault(name, (default, f"{bounds['low']} to {bounds['high']}" if bounds else ""))
    return found


SECRETS = ("DATABASE_URL", "SECRET_KEY")
SETTINGS = {cells[0].strip("`"): cells for cells in rows(page("run/settings.md"), "Variable", "Default", "Range")}


def test_every_setting_is_documented_and_no_other() -> None:
    assert set(SETTINGS) == set(env.VARIABLES)


def test_a_setting_has_the_default_and_range_of_the_code() -> None:
    code, pages = {}, {}
    for name in env.VARIABLES:
        _, shown, between, *_ = SETTINGS[name]
        default, limits = declared()[name]
        code[name] = (None if name in SECRETS else default, limits)
        pages[name] = (None if name in SECRETS else shown.strip("`"), between)
    assert pages == code


def test_secrets_can_come_from_files() -> None:
    for name in SECRETS:
        assert f"`{name}_FILE`" in page("run/settings.md")


def test_the_example_environment_shows_the_defaults() -> None:
    for line in (ROOT / ".env.example").read_text().splitlines():
        found = re.match(r"#(TASKHUB_[A-Z_]+|LOG_LEVEL)=(.*)", line)
        if found:
            assert found[2] == declared()[found[1]][0], line


# Commands ---------------------------------------------------------------------------------


def our_commands() -> dict[str, BaseCommand]:
    found = {}
    for room in ("cli", "worker"):
        for file in (ROOT / "taskhub" / room / "management" / "commands").glob("[!_]*.py"):
            found[file.stem] = load_command_class(f"taskhub.{room}", file.stem)
    return found


def options_of(command: BaseCommand, name: str) -> set[str]:
    """The options that we add, those of verbs included."""
    parser = command.create_parser("manage.py", name)
    plain = BaseCommand().create_parser("manage.py", name)
    ours = {text for action in parser._actions for text in action.option_strings}
    for action in parser._actions:
        if isinstance(action.choices, dict):
            ours |= {text for verb in action.choices.values() for a in verb._actions for text in a.option_strings}
    return {text for text in ours - {text for a in plain._actions for text in a.option_strings} if text[:2] == "--"}


@pytest.mark.parametrize("name", sorted(our_commands()))
def test_every_command_and_option_is_documented(name: str) -> None:
    operate = page("run/operate.md")
    section = re.search(rf"^## `manage\.py {name}`\n(.*?)(?=^## |\Z)", operate, re.MULTILINE | re.DOTALL)
    assert section, f"docs/run/operate.md has no section `manage.py {name}`"
    missing = [option for option in sorted(options_of(our_commands()[name], name)) if option not in section[1]]
    assert [option for option in missing if option != "--data-dir"] == []


def test_no_command_is_documented_that_does_not_exist() -> None:
    named = set(re.findall(r"^## `manage\.py (\w+)`", page("run/operate.md"), re.MULTILINE))
    assert named == {*our_commands(), "migrate"}


def test_the_readme_shows_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "\npip install uv && uv run manage.py up\n" in readme
    assert "\nuv run pytest\n" in readme


# The wire ---------------------------------------------------------------------------------


def test_every_error_code_is_documented_with_its_status() -> None:
    codes = {
        value: errors.http_status(value)
        for name, value in vars(errors).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int)
    }
    documented = {int(cells[0].strip("`")): int(cells[1]) for cells in rows(API, "Code", "HTTP")}
    assert documented == codes


@pytest.mark.parametrize(
    ("text", "known"), [(API, KNOWN), (page("api/sep-2557.md"), sep_2557.KNOWN)], ids=["2026-07-28", "sep-2557"]
)
def test_every_method_is_documented_and_no_other(text: str, known: frozenset[str]) -> None:
    named = {
        name for cells in rows(text, "Method", "Scope") for name in re.findall(r"`([a-z]+(?:/[a-z]+)+)`", cells[0])
    }
    assert named == known


def test_every_scope_is_documented() -> None:
    assert {cells[1].split("`")[1] for cells in rows(API, "Method", "Scope") if cells[1]} == set(CALL_SCOPES)
    for scope in SCOPES:
        assert f"`{scope}`" in page("run/authorization.md"), scope
    assert f"`{APPROVALS_SCOPE}`" in page("use/approvals.md")


def test_every_state_has_its_status_on_the_wire() -> None:
    shown = {
        (state, cells[1].strip("`"))
        for cells in rows(API, "State in TaskHub", "`status`")
        for state in re.findall(r"`(\w+)`", cells[0])
    }
    assert shown == {(str(state), status) for state, status in STATUS.items()} | {("input_required", "working")}


def test_names_on_the_wire_are_spelled_right() -> None:
    assert VERSION in API
    assert IDEMPOTENCY_KEY in API
    assert f'_meta["{MODE_HINT}"]' in page("use/tools.md")
    for mode in TaskMode:
        assert f'`"{mode}"`' in page("use/tools.md")


# The state machine ------------------------------------------------------------------------


def test_the_diagram_is_the_state_machine() -> None:
    text = page("dev/state-machine.md")
    drawn = set(re.findall(r"^ +(\w+) --> (\w+) : (\S+)$", text, re.MULTILINE))
    assert drawn == {(str(a), str(b), event) for event, pairs in TRANSITIONS.items() for a, b in pairs}
    named = set(re.findall(r"\b(\w+) -->|--> (\w+)", text))
    assert {word for pair in named for word in pair if word} == {str(state) for state in State}


def test_the_diagram_has_the_births_the_database_allows() -> None:
    born = set(re.findall(r"\[\*\] --> (\w+)", page("dev/state-machine.md")))
    guard = (SQL / "guards.sql").read_text()
    allowed = re.search(r"NEW\.state NOT IN \(([^)]*)\)", guard)
    assert allowed
    assert born == set(re.findall(r"'(\w+)'", allowed[1]))


def test_every_transition_event_is_explained() -> None:
    assert set(TRANSITIONS) <= {cells[0].strip("`") for cells in rows(page("dev/state-machine.md"), "Event")}


def test_every_refusal_of_the_database_is_explained() -> None:
    sql = "".join(file.read_text() for file in (ROOT / "taskhub").glob("*/*/*.sql"))
    raised = set(re.findall(r"ERRCODE = '(TH\d+)'", sql))
    assert {cells[0].strip("`") for cells in rows(page("dev/state-machine.md"), "SQLSTATE")} == raised


# The architecture -------------------------------------------------------------------------


def walks() -> dict[str, str]:
    """The text of each walk by its heading."""
    told = page("dev/architecture.md").split("\n## Four walks\n")[1].split("\n## ")[0]
    return {part.partition("\n")[0]: part for part in told.split("\n### ")[1:]}


def paths_of(walk: str) -> set[str]:
    """The files it names, from the top of the repository."""
    found = set(re.findall(r"`([\w/]+/[\w/]+\.(?:py|sql|html|js))`", walk))
    return {path if path.startswith(("templates/", "static/")) else f"taskhub/{path}" for path in found}


def test_walks_pass_files_that_there_are() -> None:
    assert [path for walk in walks().values() for path in sorted(paths_of(walk)) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("name", ["A call", "An approval"])
def test_a_walk_counts_its_files(name: str) -> None:
    walk = " ".join(walks()[name].split())
    told = {kind: int(count) for count, kind in re.findall(r"(\d+)(?: files)? of (Python|SQL|HTML)\b", walk)}
    ends = {"Python": ".py", "SQL": ".sql", "HTML": ".html"}
    counted = {kind: sum(path.endswith(end) for path in paths_of(walk)) for kind, end in ends.items()}
    assert told == {kind: count for kind, count in counted.items() if count}


def test_the_walk_to_the_browser_counts_its_hops() -> None:
    walk = walks()["A change, to the browser"]
    assert [len(rows(walk, head)) for head in ("A change", "The page reads again")] == [7, 4]
    assert "7 hops" in walk
    assert "in 4 more" in walk


def test_the_index_of_places_names_files_that_there_are() -> None:
    cells = rows(page("dev/contributing.md"), "To change", "Look at")
    named = {path for _, where, *_ in cells for path in re.findall(r"`([\w.]+(?:/[\w.]*)+)`", where)}
    assert len(named) > 40
    tops = ("static/", "templates/", "tests/", "docs/", "examples/")
    assert [
        path for path in sorted(named) if not (ROOT / ("" if path.startswith(tops) else "taskhub") / path).exists()
    ] == []


def test_a_row_of_the_index_names_few_files() -> None:
    """Whoever looks opens all of them: a row with more answers several questions, and is split."""
    cells = rows(page("dev/contributing.md"), "To change", "Look at")
    named = [(what, set(re.findall(r"`([\w.]+(?:/[\w.]*)+)`", where))) for what, where, *_ in cells]
    assert [what for what, paths in named if len(paths) > 4] == []


def test_the_walk_of_a_disabled_person_counts_its_hops() -> None:
    walk = walks()["A person is disabled"]
    assert f"{len(rows(walk, 'A person is disabled'))} hops" in walk


def test_the_table_of_programs_is_the_one_that_counts() -> None:
    table = rows(page("use/agents.md"), "Program", "`clientInfo.name`", "Its own limit", "Patience")
    known = {cells[1].strip("`").lower(): cells[3] for cells in table if cells[1] != "`mcp`"}
    told = {name: "as long as it takes" if seconds is None else f"{seconds:g} s" for name, seconds in PROGRAMS.items()}
    assert known == told


# Roles, limits, words ---------------------------------------------------------------------


def test_the_table_of_roles_is_the_gate() -> None:
    heads = [str(role) for role in (Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.AUDITOR, Role.ADMIN)]
    table = rows(page("use/console.md"), "Permission", *heads)
    told = {cells[0].split("`")[1]: [cell == "yes" for cell in cells[1:6]] for cells in table}
    known = set().union(*PERMISSIONS.values())
    assert told == {name: [name in PERMISSIONS[Role(role)] for role in heads] for name in known}


def test_every_state_is_explained_to_people() -> None:
    assert [cells[0] for cells in rows(page("use/console.md"), "State")] == [str(state) for state in State]


UNITS = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400, "KiB": 1_024, "MiB": 1_048_576}


def amounts(text: str) -> set[float]:
    """Every number in the words, with its unit, where it has one."""
    found = re.findall(r"([\d,]+)(?: (ms|s|min|h|d|KiB|MiB)\b)?", text)
    return {float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found if number.strip(",")}


def limit_rows() -> list[tuple[str, str, str]]:
    return [
        (cells[0], cells[1], cells[2].strip("`")) for cells in rows(page("run/limits.md"), "Limit", "Value", "Set by")
    ]


def test_a_limit_is_what_its_setter_says() -> None:
    wrong = []
    for what, value, setter in limit_rows():
        if "." in setter:
            module, _, name = setter.rpartition(".")
            actual: Any = getattr(importlib.import_module(f"taskhub.{module}"), name)
        elif setter.isupper():
            actual = int(declared()[setter][0])
        else:
            continue
        scale = {"MS": 0.001, "HOURS": 3_600, "DAYS": 86_400}.get(setter.rpartition("_")[2], 1)
        wanted = set(actual.values()) if isinstance(actual, Mapping) else {actual * scale}
        if not {float(number) for number in wanted} <= amounts(value):
            wrong.append(f"{what}: {value}, by {setter} {actual}")
    assert wrong == []


def test_the_limits_of_signing_in_are_those_of_the_settings() -> None:
    told = {row[0]: row[1] for row in limit_rows()}
    rates = {
        action: [f"{rate.amount} in {rate.duration:g}" for rate in parse_rates(limits)]
        for action, limits in allauth.RATE_LIMITS.items()
        if limits
    }

    def shown(*rows: str) -> list[str]:
        found = [re.fullmatch(r"(\d+) in (\d+ \w+)", told[row]) for row in rows]
        return [f"{match[1]} in {max(amounts(match[2])):g}" for match in found if match]

    assert shown("Sign-ins tried from one address") == rates["login"]
    assert shown("Wrong passwords from one address", "… for one name") == rates["login_failed"]
    assert shown("Tries to change one's own password, since the last that did") == rates["change_password"]
    assert shown("Refusals by the token endpoint, to one address") == rates["oauth_refused"]
    assert shown("Applications that register themselves, from one address") == rates["oauth_registered"]
    provider = config.OAUTH2_PROVIDER
    for row, value in {
        "Characters of a password": config.AUTH_PASSWORD_VALIDATORS[0]["OPTIONS"]["min_length"],
        "A browser's session": config.SESSION_COOKIE_AGE,
        "An authorization code": provider["AUTHORIZATION_CODE_EXPIRE_SECONDS"],
        "A client's metadata document": provider["CIMD_MAX_DOCUMENT_SIZE"],
        "Time to fetch it": provider["CIMD_FETCH_TIMEOUT_SECONDS"],
    }.items():
        assert amounts(told[row]) == {value}, row


@pytest.mark.parametrize("words", [State, Role, QuestionKind, QuestionState, Audience, TaskMode, Door, Then])
def test_the_glossary_has_our_words(words: Any) -> None:
    glossary = page("glossary.md")
    assert [str(word) for word in words if f"`{word}`" not in glossary] == []


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*:", page("glossary.md"), re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) == len(set(terms))


# Pages ------------------------------------------------------------------------------------


def anchors(file: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def test_links_lead_somewhere() -> None:
    broken = []
    for file in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(file.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = (file.parent / path).resolve() if path else file
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append(f"{file.relative_to(ROOT)}: {target}")
    assert broken == []


@pytest.mark.parametrize("name", sorted(PICTURES_TO_TAKE))
def test_the_picture_was_taken(name: str) -> None:
    assert f'"{Path(name).stem.partition("-")[0]}": "/' in (ROOT / "tools" / "screenshot.py").read_text()
    assert f'"{name}"' in (ROOT / "README.md").read_text()
    assert (ROOT / name).read_bytes().startswith(b"\x89PNG")


def test_every_page_can_be_reached() -> None:
    linked = {
        (file.parent / target.partition("#")[0]).resolve()
        for file in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(file.read_text()))
        if not re.match(r"[a-z]+:", target)
    }
    alone = [str(file.relative_to(ROOT)) for file in DOCS.rglob("*.md") if file.resolve() not in linked]
    assert [name for name in alone if name != "docs/README.md"] == []


def test_python_examples_compile() -> None:
    for file in PAGES:
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL)):
            compile(block, f"{file.name}[{number}]", "exec")


def test_decisions_are_numbered_and_listed() -> None:
    files = sorted(file.name for file in (DOCS / "decisions").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in files] == list(range(1, len(files) + 1))
    listed = re.findall(r"^\d+\. \[.+?\]\((.+?)\)", page("decisions/README.md"), re.MULTILINE)
    assert listed == files
    for name in files:
        head, *_, text = (DOCS / "decisions" / name).read_text().partition("\n")
        assert head.startswith(f"# {int(name[:4])}. ")
        assert "**Status:**" in text


def test_the_tool_authors_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of docs/use/tools.md, asked through the SDK."""
    import asyncio

    import mcp_types
    from mcp import Client

    monkeypatch.setenv("SHOP_STATE_KEY", "k" * 32)
    (block,) = re.findall(r"```python\n(.*?)```", page("use/tools.md"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "tools.md", "exec", dont_inherit=True), names)  # our own page

    async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="accept", content={"amount": 5})

    async def call() -> str:
        async with Client(names["server"], elicitation_callback=answer) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.meta is not None
            assert tool.meta[MODE_HINT] == TaskMode.ALWAYS
            result = await client.call_tool("refund", {"order": "A1"})
        return str(result.content[0].text)

    assert asyncio.run(call()) == "5 refunded for order A1 (state: A1)."
