"""Servers of the matrix that drive a browser, which is their state."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.servers.kinds import BIG, Server, Step


def _upload(place: Path) -> None:
    (place / "a.txt").write_text("a\n")


PLAYWRIGHT: Final = Server(
    name="playwright",
    package="@playwright/mcp",
    home="javascript",
    needs="chromium-headless-shell",
    command=(
        "{bin}/playwright-mcp --headless --no-sandbox --isolated --executable-path {chromium}"
        " --output-dir {work} --allow-unrestricted-file-access"
    ),
    prepare=_upload,
    call=(
        Step("browser_navigate", {"url": "{page}/page.html"}),
        Step("browser_snapshot"),
        Step("browser_find", {"text": "Greet"}),
        Step("browser_resize", {"width": 800, "height": 600}),
        Step("browser_type", {"target": "#name", "text": "Ann"}),
        Step("browser_click", {"target": "#go", "element": "Greet"}),
        Step("browser_wait_for", {"text": "Hello Ann"}),
        Step("browser_select_option", {"target": "#colour", "values": ["green"]}),
        Step("browser_fill_form", {"fields": [{"name": "Name", "target": "#name", "type": "textbox", "value": "Bo"}]}),
        Step("browser_hover", {"target": "#go"}),
        Step("browser_drag", {"startTarget": "#a", "endTarget": "#b", "startElement": "a", "endElement": "b"}),
        Step("browser_drop", {"target": "#b", "data": {"text/plain": "x"}}),
        Step("browser_press_key", {"key": "Tab"}),
        Step("browser_emulate_media", {"colorScheme": "dark"}),
        Step("browser_evaluate", {"function": "() => document.title"}),
        Step("browser_run_code_unsafe", {"code": "async (page) => await page.title()"}),
        Step("browser_console_messages", {"level": "info"}),
        Step("browser_network_requests", {"static": False}),
        Step("browser_network_request", {"index": 1, "part": "response-body"}),
        Step("browser_take_screenshot", {"scale": "css"}),
        Step("browser_click", {"target": "#file"}),
        Step("browser_file_upload", {"paths": ["{place}/a.txt"]}),
        Step("browser_click", {"target": "#alert"}),
        Step("browser_handle_dialog", {"accept": True}),
        Step("browser_tabs", {"action": "new", "url": "{page}/other.html"}),
        Step("browser_tabs", {"action": "close", "index": 1}),
        Step("browser_navigate", {"url": "{page}/other.html"}),
        Step("browser_navigate_back"),
        Step("browser_click", {"target": "#none"}),
        Step("browser_close"),
    ),
    cancel=(
        Step("browser_navigate", {"url": "{page}/page.html"}),
        Step("browser_wait_for", {"time": 30}),
        Step("browser_evaluate", {"function": "() => location.href"}),
    ),
    big=(
        Step("browser_navigate", {"url": "{page}/page.html"}),
        Step("browser_evaluate", {"function": f"() => 'x'.repeat({BIG})"}),
        Step("browser_close"),
    ),
    masks={
        r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z": "TIME",
        r"\[ *\d+ms\]": "[TIME]",
        r"\d+ ?ms\b": "TIME",
    },
)

DEVTOOLS: Final = Server(
    name="chrome-devtools",
    package="chrome-devtools-mcp",
    home="javascript",
    needs="chromium-headless-shell",
    command=(
        "{bin}/chrome-devtools-mcp --headless --isolated --executablePath {chromium} --chromeArg=--no-sandbox"
        " --no-usage-statistics"
    ),
    prepare=_upload,
    call=(
        Step("list_pages"),
        Step("new_page", {"url": "{page}/page.html"}),
        Step("select_page", {"pageId": 2}),
        Step("take_snapshot", {"pageId": 2}),
        Step("resize_page", {"pageId": 2, "width": 800, "height": 600}),
        Step("evaluate_script", {"pageId": 2, "function": "() => document.title"}),
        Step("wait_for", {"pageId": 2, "text": ["Greet"]}),
        Step("press_key", {"pageId": 2, "key": "Tab"}),
        Step("type_text", {"pageId": 2, "text": "Ann"}),
        Step("emulate", {"pageId": 2, "colorScheme": "dark"}),
        Step("list_console_messages", {"pageId": 2}),
        Step("get_console_message", {"pageId": 2, "msgid": 1}),
        Step("list_network_requests", {"pageId": 2}),
        Step("get_network_request", {"pageId": 2, "reqid": 1}),
        Step("take_screenshot", {"pageId": 2}),
        Step("take_heapsnapshot", {"pageId": 2, "filePath": "{place}/page.heapsnapshot"}),
        Step("performance_start_trace", {"pageId": 2, "reload": False, "autoStop": False}),
        Step("performance_stop_trace", {"pageId": 2}),
        Step("performance_analyze_insight", {"pageId": 2, "insightSetId": "none", "insightName": "LCPBreakdown"}),
        Step("click", {"pageId": 2, "uid": "9_99"}),
        Step("hover", {"pageId": 2, "uid": "9_99"}),
        Step("fill", {"pageId": 2, "uid": "9_99", "value": "x"}),
        Step("fill_form", {"pageId": 2, "elements": [{"uid": "9_99", "value": "x"}]}),
        Step("drag", {"pageId": 2, "from_uid": "9_98", "to_uid": "9_99"}),
        Step("upload_file", {"pageId": 2, "uid": "9_99", "filePaths": ["{place}/a.txt"]}),
        Step("get_css_styles", {"pageId": 2, "uid": "9_99"}),
        Step("handle_dialog", {"pageId": 2, "action": "accept"}),
        Step("navigate_page", {"pageId": 2, "type": "url", "url": "{page}/other.html"}),
        Step("navigate_page", {"pageId": 2, "type": "back"}),
        Step("lighthouse_audit", {"pageId": 2, "outputDirPath": "{place}"}),
        Step("close_page", {"pageId": 2}),
    ),
    cancel=(
        Step("navigate_page", {"pageId": 1, "type": "url", "url": "{page}/page.html"}),
        Step("wait_for", {"pageId": 1, "text": ["never shown"], "timeout": 6_000}),
        Step("evaluate_script", {"pageId": 1, "function": "() => location.href"}),
    ),
    big=(Step("evaluate_script", {"pageId": 1, "function": f"() => 'x'.repeat({BIG})"}),),
    not_called={"screencast_start": "it needs ffmpeg", "screencast_stop": "it needs ffmpeg"},
    masks={
        r"### Request Headers[\s\S]*### Response Body": "HEADERS",  # in an order of their own
        r"Trace bounds: [^\n]*": "Trace bounds",
        r"Total timing: [^\n]*": "Total timing",
    },
)
