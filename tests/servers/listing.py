"""The servers of the matrix."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.servers.kinds import BIG, Server, Step
from tests.servers.listing_browsers import DEVTOOLS, PLAYWRIGHT
from tests.servers.listing_sdks import FASTMCP, PYTHON_HTTP, PYTHON_SSE, PYTHON_STDIO
from tests.servers.speakers import accept


def _files(place: Path) -> None:
    (place / "deep").mkdir()
    (place / "a.txt").write_text("one\ntwo\nthree\n")
    (place / "deep" / "b.txt").write_text("b\n")
    (place / "big.txt").write_text("".join(f"line {number}\n" for number in range(BIG // 12)))
    (place / "dot.png").write_bytes(bytes.fromhex("89504e470d0a1a0a"))


def _entity(name: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": "person", "observations": list(observations)}


def _thought(number: int, **more: Any) -> dict[str, Any]:
    return {"thought": f"Thought {number}", "thoughtNumber": number, "totalThoughts": 3, **more}


FILES: Final = Server(
    name="filesystem",
    package="@modelcontextprotocol/server-filesystem",
    home="javascript",
    command="{bin}/mcp-server-filesystem {work}",
    quick=True,
    prepare=_files,
    call=(
        Step("list_allowed_directories"),
        Step("read_file", {"path": "{place}/a.txt"}),
        Step("read_text_file", {"path": "{place}/a.txt", "head": 2}),
        Step("read_text_file", {"path": "{place}/missing.txt"}),
        Step("read_text_file", {"path": "/etc/passwd"}),
        Step("read_text_file", {"path": 5}),
        Step("read_media_file", {"path": "{place}/dot.png"}),
        Step("read_multiple_files", {"paths": ["{place}/a.txt", "{place}/deep/b.txt", "{place}/none"]}),
        Step("write_file", {"path": "{place}/new.txt", "content": "hé\n"}),
        Step("edit_file", {"path": "{place}/new.txt", "edits": [{"oldText": "hé", "newText": "hey"}]}),
        Step("create_directory", {"path": "{place}/made"}),
        Step("move_file", {"source": "{place}/new.txt", "destination": "{place}/made/c.txt"}),
        Step("list_directory", {"path": "{place}"}),
        Step("list_directory_with_sizes", {"path": "{place}", "sortBy": "size"}),
        Step("directory_tree", {"path": "{place}"}),
        Step("search_files", {"path": "{place}", "pattern": "**/*.txt"}),
        Step("get_file_info", {"path": "{place}/a.txt"}),
    ),
    big=(Step("read_text_file", {"path": "{place}/big.txt"}),),
    masks={r"(created|modified|accessed): [^\n]+": r"\1: TIME"},
)

EVERYTHING: Final = Server(
    name="everything",
    package="@modelcontextprotocol/server-everything",
    home="javascript",
    command="{bin}/mcp-server-everything stdio",
    quick=True,
    call=(
        Step("echo", {"message": "hé"}),
        Step("echo", {}),
        Step("get-annotated-message", {"messageType": "error", "includeImage": True}),
        Step("get-resource-links", {"count": 4}),
        Step("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        Step("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        Step("get-structured-content", {"location": "Chicago"}),
        Step("get-sum", {"a": 1, "b": 2.5}),
        Step("get-tiny-image"),
        Step(
            "gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain;base64,aGV5", "outputType": "resource"}
        ),
        Step("toggle-simulated-logging"),
        Step("toggle-simulated-logging"),
        Step("toggle-subscriber-updates"),
        Step("toggle-subscriber-updates"),
        Step("trigger-long-running-operation", {"duration": 1, "steps": 2}),
        Step("simulate-research-query", {"topic": "snow"}),
    ),
    question=(
        Step("get-roots-list"),
        Step("trigger-elicitation-request", answers={"elicitation/create": accept(name="Ann", check=True, integer=3)}),
        Step("trigger-elicitation-request"),
        Step(
            "trigger-url-elicitation",
            {"url": "https://example.com/", "elicitationId": "e-1"},
            {"elicitation/create": accept()},
            since="2025-11-25",
        ),
        Step("trigger-sampling-request", {"prompt": "Hi", "maxTokens": 20}),
        Step(
            "trigger-elicitation-request-async",
            answers={"elicitation/create": accept(name="Ann", favoriteColor="Blue", agreeToTerms=True)},
        ),
        Step("trigger-elicitation-request-async"),
        Step("trigger-sampling-request-async", {"prompt": "Hi", "maxTokens": 20}),
        Step(
            "simulate-research-query",
            {"topic": "python", "ambiguous": True},
            {"elicitation/create": accept(interpretation="snake")},
        ),
    ),
    cancel=(
        Step("echo", {"message": "before"}),
        Step("trigger-long-running-operation", {"duration": 60, "steps": 60}),
        Step("echo", {"message": "after"}),
    ),
    big=(Step("echo", {"message": "x" * BIG}),),
    not_called={"get-env": "it shows the whole environment, which is another process's"},
    masks={
        r"\d{1,2}:\d\d:\d\d( [AP]M)?": "TIME",
        r"Task created: \S+": "Task created: ID",
        r'"taskId": "[^"]+"': '"taskId": "ID"',
        r"(\nPoll \d+: [^\n]*)+": "\nPolls",  # how often it asks, and in whose words it is answered
    },
)

MEMORY: Final = Server(
    name="memory",
    package="@modelcontextprotocol/server-memory",
    home="javascript",
    command="{bin}/mcp-server-memory",
    env={"MEMORY_FILE_PATH": "{work}/{side}.jsonl"},
    quick=True,
    call=(
        Step("create_entities", {"entities": [_entity("Ann", "likes tea"), _entity("Bo")]}),
        Step("create_relations", {"relations": [{"from": "Ann", "to": "Bo", "relationType": "knows"}]}),
        Step("add_observations", {"observations": [{"entityName": "Bo", "contents": ["is tall"]}]}),
        Step("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["is not there"]}]}),
        Step("search_nodes", {"query": "tea"}),
        Step("open_nodes", {"names": ["Bo"]}),
        Step("read_graph"),
        Step("delete_observations", {"deletions": [{"entityName": "Bo", "observations": ["is tall"]}]}),
        Step("delete_relations", {"relations": [{"from": "Ann", "to": "Bo", "relationType": "knows"}]}),
        Step("delete_entities", {"entityNames": ["Ann", "Bo"]}),
        Step("read_graph"),
    ),
    big=(
        Step("create_entities", {"entities": [_entity(f"n{place}", "x" * 1_000) for place in range(BIG // 1_000)]}),
        Step("read_graph"),
        Step("delete_entities", {"entityNames": [f"n{place}" for place in range(BIG // 1_000)]}),
    ),
)

THINKING: Final = Server(
    name="sequential-thinking",
    package="@modelcontextprotocol/server-sequential-thinking",
    home="javascript",
    command="{bin}/mcp-server-sequential-thinking",
    call=(
        Step("sequentialthinking", _thought(1, nextThoughtNeeded=True)),
        Step("sequentialthinking", _thought(2, nextThoughtNeeded=True, branchFromThought=1, branchId="b")),
        Step("sequentialthinking", _thought(3, nextThoughtNeeded=False, isRevision=True, revisesThought=1)),
        Step("sequentialthinking", {"thought": "without a number"}),
    ),
)

FETCH: Final = Server(
    name="fetch",
    package="mcp-server-fetch",
    home="fetch",
    command="{bin}/mcp-server-fetch --allow-private-ips",
    version="2026-07-28",
    call=(
        Step("fetch", {"url": "{page}/page.html"}),
        Step("fetch", {"url": "{page}/page.html", "raw": True}),
        Step("fetch", {"url": "{page}/page.html", "max_length": 20, "start_index": 5}),
        Step("fetch", {"url": "{page}/none.html"}),
        Step("fetch", {"url": "no address"}),
    ),
    cancel=(
        Step("fetch", {"url": "{page}/page.html"}),
        Step("fetch", {"url": "{page}/slow.html"}),
        Step("fetch", {"url": "{page}/page.html"}),
    ),
    big=(Step("fetch", {"url": "{page}/big.html", "raw": True, "max_length": 999_999}),),
)

TIME: Final = Server(
    name="time",
    package="mcp-server-time",
    home="time",
    command="{bin}/mcp-server-time --local-timezone UTC",
    version="2026-07-28",
    call=(
        Step("get_current_time", {"timezone": "Asia/Tokyo"}),
        Step("get_current_time", {"timezone": "No/Where"}),
        Step(
            "convert_time",
            {"source_timezone": "Europe/London", "time": "12:30", "target_timezone": "Asia/Tokyo"},
        ),
        Step("convert_time", {"source_timezone": "Europe/London", "time": "noon", "target_timezone": "Asia/Tokyo"}),
    ),
    masks={r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d": "TIME"},
)


def _repository(place: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True, env=_ENVIRONMENT)

    git("init", "--quiet", "--initial-branch", "main")
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.com")
    (place / "a.txt").write_text("one\n")
    (place / "big.txt").write_text("".join(f"line {number}\n" for number in range(BIG // 12)))
    git("add", ".")
    git("commit", "--quiet", "--message", "Begin")
    (place / "a.txt").write_text("one\ntwo\n")


_THEN: Final = "2026-01-02T03:04:05+00:00"
_ENVIRONMENT: Final = {**os.environ, "GIT_AUTHOR_DATE": _THEN, "GIT_COMMITTER_DATE": _THEN}

GIT: Final = Server(
    name="git",
    package="mcp-server-git",
    home="git",
    command="{bin}/mcp-server-git",
    env={"GIT_AUTHOR_DATE": _THEN, "GIT_COMMITTER_DATE": _THEN},
    version="2026-07-28",
    quick=True,
    prepare=_repository,
    call=(
        Step("git_status", {"repo_path": "{place}"}),
        Step("git_diff_unstaged", {"repo_path": "{place}"}),
        Step("git_add", {"repo_path": "{place}", "files": ["a.txt"]}),
        Step("git_diff_staged", {"repo_path": "{place}", "context_lines": 0}),
        Step("git_reset", {"repo_path": "{place}"}),
        Step("git_add", {"repo_path": "{place}", "files": ["a.txt"]}),
        Step("git_commit", {"repo_path": "{place}", "message": "Go on"}),
        Step("git_log", {"repo_path": "{place}", "max_count": 2}),
        Step("git_create_branch", {"repo_path": "{place}", "branch_name": "other"}),
        Step("git_checkout", {"repo_path": "{place}", "branch_name": "other"}),
        Step("git_branch", {"repo_path": "{place}", "branch_type": "local"}),
        Step("git_diff", {"repo_path": "{place}", "target": "HEAD~1"}),
        Step("git_show", {"repo_path": "{place}", "revision": "HEAD"}),
        Step("git_show", {"repo_path": "{place}", "revision": "nothing"}),
        Step("git_status", {"repo_path": "/nowhere"}),
    ),
    big=(Step("git_show", {"repo_path": "{place}", "revision": "main~1"}),),
)

SQLITE: Final = Server(
    name="sqlite",
    package="mcp-server-sqlite",
    home="sqlite",
    about="on mcp 1.1",
    command="{bin}/mcp-server-sqlite --db-path {work}/{side}.db",
    version="2024-11-05",
    call=(
        Step("list-tables"),
        Step("create-table", {"query": "CREATE TABLE t (a INTEGER, b TEXT)"}),
        Step("write-query", {"query": "INSERT INTO t VALUES (1, 'one'), (2, NULL)"}),
        Step("read-query", {"query": "SELECT * FROM t"}),
        Step("read-query", {"query": "SELECT * FROM none"}),
        Step("describe-table", {"table_name": "t"}),
        Step("append-insight", {"insight": "two rows"}),
        Step("write-query", {"query": "DROP TABLE t"}),
    ),
    big=(Step("read-query", {"query": f"SELECT replace(hex(zeroblob({BIG // 2})), '0', 'x')"}),),
)

SERVERS: Final = (
    FASTMCP,
    EVERYTHING,
    FILES,
    MEMORY,
    THINKING,
    FETCH,
    GIT,
    TIME,
    SQLITE,
    PLAYWRIGHT,
    DEVTOOLS,
    PYTHON_HTTP,
    PYTHON_STDIO,
    PYTHON_SSE,
)
