"""What a built site must not have: a link that leads nowhere, a request to elsewhere."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from typing_extensions import override

LOADED = {
    "script",
    "link",
    "img",
    "source",
    "iframe",
    "video",
    "audio",
    "object",
    "embed",
}
"""Elements whose addresses a browser asks for by itself."""
ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")
FIRST = "docs/index.html"


class Read(HTMLParser):
    """A page: its anchors, where it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors, self.links, self.loads = {"", "top"}, list[str](), list[str]()
        self.feed(text)
        self.loads += IN_STYLE.findall(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in {"href", "src", "data", "poster"} and value:
                (self.loads if tag in LOADED else self.links).append(value)


def _elsewhere(read: Read) -> list[str]:
    return [one for one in read.loads if ELSEWHERE.match(one)]


def _broken(path: Path, pages: dict[Path, Read]) -> Iterator[str]:
    for link in pages[path].links + pages[path].loads:
        if SCHEME.match(link):
            continue
        address, _, anchor = link.partition("#")
        name = unquote(address.partition("?")[0])
        target = (path.parent / name).resolve() if name else path
        anchors = pages[target].anchors if target in pages else {"", anchor}
        if not target.is_file() or unquote(anchor) not in anchors:
            yield link


def faults(site: Path) -> Iterator[str]:
    """What is wrong with the pages and styles in this directory, a line each."""
    site = site.resolve()
    pages = {path: Read(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name} loads {one}" for one in _elsewhere(page))
        yield from (f"{name} links to {one}: not there" for one in _broken(path, pages))
    for path in sorted(site.rglob("*.css")):
        for one in IN_STYLE.findall(path.read_text()):
            yield f"{path.relative_to(site)} loads {one}"


def _finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    site.joinpath("index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={FIRST}">'
        f'<title>Trainwarden</title><a href="{FIRST}">Trainwarden</a>\n'
    )
    if found := list(faults(site)):
        raise ExtensionError("\n".join(["the site is not whole:", *found]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks each extension for this."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": False}
