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


COLLIDING = """
() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const boxes = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.data.trim();
    const unseen = '.skip, title, desc, style, script, details:not([open]) > :not(summary)';
    if (!text || node.parentElement.closest(unseen)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const clip = node.parentElement.closest('pre, .scroll, .bar')?.getBoundingClientRect();
    for (const box of range.getClientRects()) {
      const { left, right, top, bottom } = box;
      boxes.push([text.slice(0, 40), clip === undefined ? box : {
        left: Math.max(left, clip.left), right: Math.min(right, clip.right),
        top: Math.max(top, clip.top), bottom: Math.min(bottom, clip.bottom),
      }, node]);
    }
  }
  const found = new Set();
  for (const [index, [text, a, node]] of boxes.entries())
    for (const [other, b, beside] of boxes.slice(index + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (node !== beside && across > 1 && down > 2) found.add(`${text} | ${other}`);
    }
  for (const text of document.querySelectorAll('svg text')) {
    const box = text.getBoundingClientRect();
    const around = text.ownerSVGElement.getBoundingClientRect();
    if (box.left < around.left - 1 || box.right > around.right + 1 ||
        box.top < around.top - 1 || box.bottom > around.bottom + 1)
      found.add(`${text.textContent} is cut off`);
  }
  return [...found];
}
"""
"""Texts that lie on each other, or hang out of their picture."""


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

    def collisions(self, width: int) -> list[str]:
        """What cannot be read, or has to be scrolled to, in a window of this width."""
        self.page.set_viewport_size({"width": width, "height": 900})
        found: list[str] = self.page.evaluate(COLLIDING)
        wider = "document.documentElement.scrollWidth - window.innerWidth"
        if self.page.evaluate(wider) > 0:
            found.append("it scrolls sideways")
        return [f"{width} px: {one}" for one in found]

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
