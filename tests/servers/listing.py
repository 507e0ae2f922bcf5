"""The servers of the matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.servers.kinds import Server, Step
from tests.servers.speakers import accept

BIG: Final = 3_000_000
"""Characters of a result that is called big."""


def _files(place: Path) -> None:
    (place / "deep").mkdir()
    (place / "a.txt").write_text("one\ntwo\nthree\n")
    (place / "deep" / "b.txt").write_text("b\n")
    (place / "big.txt").write_text("".join(f"line {number}\n" for number in range(BIG // 12)))
    (place / "dot.png").write_bytes(bytes.fromhex("89504e470d0a1a0a"))


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
        Step(
            "get-roots-list",
            differs="it asks for roots as soon as it is started, maybe before a call runs, and never again",
        ),
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
    lists_besides={
        "resources/demo://resource/session/a.gz": "what one client's process adds to the list is listed for all"
    },
    not_called={"get-env": "it shows the whole environment, which is another process's"},
    masks={r"\d{1,2}:\d\d:\d\d( [AP]M)?": "TIME"},
)

SERVERS: Final = (FILES, EVERYTHING)
