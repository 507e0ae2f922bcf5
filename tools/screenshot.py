#!/usr/bin/env python
"""Take the picture of the README from a TaskHub that runs with its demo.

    uv run manage.py up &
    uv run --group browser tools/screenshot.py                  the inbox, into docs/img/console.png
    uv run --group browser tools/screenshot.py --page /tasks/   another page

It signs in as admin with the `credentials.json` that the first start wrote. It needs Chromium: the
system's, or Playwright's own (`uv run playwright install chromium`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1_440, 900


def sign_in(page: Page, base: str, person: dict[str, str]) -> None:
    """Through the sign-in page, as a person does."""
    page.goto(f"{base}/accounts/login/")
    page.fill("input[name=login]", person["username"])
    page.fill("input[name=password]", person["password"])
    page.click("form:has(input[name=password]) button.primary")
    page.wait_for_url(f"{base}/")


def main() -> int:
    """Sign in, open the page, wait until it is drawn, save it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=ROOT / ".taskhub", help="as for `up` (default .taskhub)")
    parser.add_argument("--page", default="/inbox/", help="path of the page (default /inbox/)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img" / "console.png")
    parser.add_argument("--role", default="admin", help="whose eyes (default admin)")
    parser.add_argument("--dark", action="store_true", help="with the dark theme")
    options = parser.parse_args()
    path = options.data_dir / "credentials.json"
    try:
        known: dict[str, Any] = json.loads(path.read_text())
    except OSError as error:
        sys.stderr.write(f"Cannot read {path}: {error.strerror}. Run `manage.py up` first.\n")
        return 1
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        except Error as error:
            sys.stderr.write(f"{str(error).splitlines()[0]}\nInstall it with: uv run playwright install chromium\n")
            return 1
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme="dark" if options.dark else "light",
            reduced_motion="reduce",
        )
        sign_in(page, known["url"], known["users"][options.role])
        # The page keeps a socket open, so it is never idle; it is drawn when it has loaded.
        response = page.goto(known["url"] + options.page, wait_until="load")
        if response is None or not response.ok:
            sys.stderr.write(f"{options.page} answered {response.status if response else 'nothing'}\n")
            return 1
        page.evaluate("document.fonts.ready")
        options.out.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=options.out)
        browser.close()
    sys.stdout.write(f"{options.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
