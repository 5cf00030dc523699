"""Debian's chromium, driven: what a page asks for, complains of, and is missing for those
who do not see it."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

WIDE, NARROW = (1200, 900), (360, 740)
AXE = files("axe_playwright_python") / "axe.min.js"
"""axe-core, as that package brings it."""
ASKED = {"light": "axe.run()", "dark": "axe.run({runOnly: ['color-contrast']})"}
"""Another theme has other colours, and is the same else."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A page that was opened, and what it did."""

    page: Page
    asked: list[str] = field(default_factory=list[str])
    """Every address that was asked for."""
    said: list[str] = field(default_factory=list[str])
    """Errors and warnings of the console, and exceptions."""

    def check(self, *, only: str) -> None:
        """Nothing was asked for elsewhere than below ``only``; nothing went wrong; axe
        has no objection; no output of a job became markup; nothing hangs over the side."""
        assert self.said == []
        assert [url for url in self.asked if not url.startswith(only)] == []
        assert self.page.evaluate("window.owned") is None
        wider = "document.documentElement.scrollWidth - window.innerWidth"
        assert self.page.evaluate(wider) <= 0
        assert self.objections() == []

    def objections(self) -> list[str]:
        """What axe-core finds, in both themes."""
        found: list[str] = []
        self.page.evaluate(AXE.read_text("utf-8"))
        for theme in ("light", "dark"):
            self.page.emulate_media(color_scheme=theme)
            result: dict[str, Any] = self.page.evaluate(ASKED[theme])
            found += [
                f"{theme}: {one['id']}: {node['html'][:200]}: {node['failureSummary']}"
                for one in result["violations"]
                for node in one["nodes"][:3]
            ]
        return found

    def focused(self) -> str:
        """What has the focus: its text, or its label."""
        text = "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
        return str(self.page.evaluate(text)).strip()


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser. A laptop may lack it (skip); in CI it has to be there (fail)."""
    program = shutil.which("chromium")
    if program is None and os.environ.get("CI"):
        pytest.fail("chromium is not installed; .ci/run installs it")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@contextmanager
def visit(
    browser: Browser, url: str, *, size: tuple[int, int] = WIDE
) -> Generator[Visit]:
    """Open ``url`` in a window of this size."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(60_000)
    page = context.new_page()
    made = Visit(page=page)
    page.on("request", lambda request: made.asked.append(request.url))
    page.on("pageerror", lambda error: made.said.append(str(error)))
    page.on("console", lambda message: _note(made, message))
    page.goto(url)
    yield made
    context.close()


def _note(made: Visit, message: ConsoleMessage) -> None:
    if message.type in {"error", "warning"}:
        made.said.append(message.text)
