#!/usr/bin/env python
"""Take the pictures of the README from a TaskHub that runs with its demo: inbox, task and overview, light and dark.

    uv run manage.py up &
    uv run --group browser tools/screenshot.py                       all six, into docs/img/
    uv run --group browser tools/screenshot.py --page /tasks/ --out tasks.png    another page, light

It signs in as admin with the `credentials.json` that the first start wrote. It needs Chromium: the
system's, or Playwright's own (`uv run playwright install chromium`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Browser, Error, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "img"
WIDTH, HEIGHT = 1_440, 900
PAGES: Final = {"inbox": "/inbox/", "task": "/tasks/?tool=deploy", "overview": "/"}
"""The pictures of the README. That of a task is the first one of its list."""


def sign_in(page: Page, base: str, person: dict[str, str]) -> None:
    """Through the sign-in page, as a person does."""
    page.goto(f"{base}/accounts/login/")
    page.fill("input[name=login]", person["username"])
    page.fill("input[name=password]", person["password"])
    page.click("form:has(input[name=password]) button.primary")
    page.wait_for_url(f"{base}/")


def take(page: Page, url: str, out: Path, *, first_task: bool = False) -> None:
    """Open the page, wait until it is drawn, save it. Raises `ValueError` if it is none."""
    # A page keeps a socket open, so it is never idle; it is drawn when it has loaded.
    response = page.goto(url, wait_until="load")
    if response is None or not response.ok:
        raise ValueError(f"{url} answered {response.status if response else 'nothing'}")
    if first_task:
        page.click("#task-list a[href^='/tasks/']")
        page.wait_for_url("**/tasks/*/")
    page.evaluate("document.fonts.ready")
    out.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=out)
    sys.stdout.write(f"{out}\n")


def signed_in(browser: Browser, known: dict[str, Any], role: str, scheme: Literal["light", "dark"]) -> Page:
    """A page of that colour scheme, after the sign-in."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, reduced_motion="reduce")
    sign_in(page, known["url"], known["users"][role])
    return page


def main() -> int:
    """Take one picture, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=ROOT / ".taskhub", help="as for `up` (default .taskhub)")
    parser.add_argument("--page", help="path of one page instead")
    parser.add_argument("--out", type=Path, default=Path("page.png"), help="its file (default page.png)")
    parser.add_argument("--role", default="admin", help="whose eyes (default admin)")
    parser.add_argument("--dark", action="store_true", help="that page with the dark theme")
    options = parser.parse_args()
    path = options.data_dir / "credentials.json"
    try:
        known: dict[str, Any] = json.loads(path.read_text())
    except OSError as error:
        sys.stderr.write(f"Cannot read {path}: {error.strerror}. Run `manage.py up` first.\n")
        return 1
    with sync_playwright() as playwright:
        try:
            found = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            sys.stderr.write(f"{str(error).splitlines()[0]}\nInstall it with: uv run playwright install chromium\n")
            return 1
        try:
            if options.page:
                page = signed_in(browser, known, options.role, "dark" if options.dark else "light")
                take(page, known["url"] + options.page, options.out)
                return 0
            schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
            for scheme in schemes:
                page = signed_in(browser, known, options.role, scheme)
                for name, address in PAGES.items():
                    out = IMAGES / f"{name}-{scheme}.png"
                    take(page, known["url"] + address, out, first_task=name == "task")
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
