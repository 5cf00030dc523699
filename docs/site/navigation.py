"""The side bar: the sections of docs/index.md, and the pages that each links to."""

import re
from typing import Any

from sphinx.application import Sphinx

INDEX = "docs/index"
LINK = re.compile(r"\[([^]]+)\]\(([^)#]+)\.md\)")
RUNBOOKS = "deploy/runbooks/"
"""Thirty pages that an alert leads to: not for the side bar."""


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Each heading of the index with the pages below it, as a table of contents has them."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return [
        (
            title,
            [
                f"{name[0].upper()}{name[1:]} <{page}>"
                for name, page in LINK.findall(body)
            ],
        )
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    ]


def side_bar(text: str) -> str:
    """The same as hidden tables of contents."""
    return "".join(
        "\n```{toctree}\n:hidden:\n:caption: " + "\n".join([title, "", *pages, "```\n"])
        for title, pages in sections(text)
    )


def _read(_app: Sphinx, page: str, source: list[str]) -> None:
    if page == INDEX:
        source[0] += side_bar(source[0])
    elif page.startswith(RUNBOOKS):
        source[0] = "---\norphan: true\n---\n" + source[0]


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks each extension for this."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": False}
