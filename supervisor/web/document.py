"""A whole document: head, theme, Content-Security-Policy, sections.

The policy allows nothing but the style that stands in the document, by its hash, and, on
the page that is served, one script and requests to where it came from.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from supervisor.web.markup import (
    Element,
    Node,
    Nodes,
    Redaction,
    Verbatim,
    as_it_is,
    render,
    tag,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part with a heading."""

    id: str
    title: str
    content: Sequence[Node]
    charts: bool = False
    """It is laid out as a grid of figures."""

    def draw(self) -> Element:
        """The section; nothing of it where it is empty is drawn by who asks."""
        inner: Sequence[Node] = self.content
        if self.charts:
            inner = [tag("div", self.content, class_="charts")]
        heading = f"{self.id}-heading"
        return tag(
            "section",
            tag("h2", self.title, id=heading),
            inner,
            id=self.id,
            aria_labelledby=heading,
        )


@cache
def asset(name: str) -> str:
    """A file of ours: the theme, or the script of the served page."""
    return files("supervisor.web").joinpath(name).read_text("utf-8")


def policy(*, served: bool = False) -> str:
    """The Content-Security-Policy. ``served``: by ``ui``, with its script."""
    digest = hashlib.sha256(asset("theme.css").encode()).digest()
    style = f"'sha256-{base64.b64encode(digest).decode()}'"
    more = "script-src 'self'; connect-src 'self'; " if served else ""
    return f"default-src 'none'; {more}style-src {style}; base-uri 'none'; form-action 'none'"


def document(
    *,
    title: str,
    about: Nodes,
    sections: Sequence[Section],
    navigation: Node = None,
    footer: Node = None,
    script: str | None = None,
    live: str | None = None,
    redact: Redaction = as_it_is,
) -> str:
    """The text of a page. ``script``: where its script is; None: it has none. ``live``:
    what that asks how things are.
    """
    shown = [one for one in sections if any(part is not None for part in one.content)]
    served = script is not None
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag(
            "meta", http_equiv="Content-Security-Policy", content=policy(served=served)
        ),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Trainwarden"),
        Verbatim("style", asset("theme.css")),
        tag("script", src=script, defer=True) if script is not None else None,
    )
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("p", "Trainwarden", class_="brand"),
            tag("h1", title),
            about,
            navigation,
        ),
        tag(
            "main",
            [one.draw() for one in shown],
            id="content",
            tabindex=-1,
            data_live=live,
        ),
        tag("footer", footer),
    )
    return (
        "<!doctype html>\n"
        + render(tag("html", head, body, lang="en"), redact=redact)
        + "\n"
    )


def contents(sections: Sequence[Section]) -> Element:
    """Links to the sections."""
    items = [tag("li", tag("a", one.title, href=f"#{one.id}")) for one in sections]
    return tag("nav", tag("ul", items), aria_label="Parts of this page")
