"""State diagrams in Mermaid's words, as tables: its program would have to be loaded from
elsewhere, and forty arrows are read more easily in rows."""

import re
from itertools import groupby
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

ARROW = re.compile(r"^ *(\w+) --> (\w+): (.+)$", re.MULTILINE)
HEAD = ("state", "what happens", "then")


def transitions(text: str) -> list[tuple[str, str, str]]:
    """State, event and the states that may follow, a row for each state and event."""
    found = [(source, label, target) for source, target, label in ARROW.findall(text)]
    return [
        (*pair, ", ".join(target for *_, target in rows))
        for pair, rows in groupby(found, key=lambda row: row[:2])
    ]


def _row(cells: tuple[str, ...]) -> nodes.row:
    return nodes.row(
        "", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells)
    )


def table(rows: list[tuple[str, str, str]]) -> nodes.table:
    """The rows under a head."""
    group = nodes.tgroup("", cols=len(HEAD))
    group += [nodes.colspec(colwidth=1) for _ in HEAD]
    group += nodes.thead("", _row(HEAD))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group)


def _replace(_app: Sphinx, document: nodes.document) -> None:
    for block in list(document.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(table(transitions(block.astext())))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks each extension for this."""
    app.connect("doctree-read", _replace)
    return {"parallel_read_safe": False}
