"""Links from pages to files of the repository: each file and folder that is linked to
becomes a page, so that a link needs no server and no other place."""

import ast
import html
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

PLACE = "source/"
"""Of these pages in the site, by their path in the repository."""
PICTURES = {".png", ".svg"}
LARGEST = 40_000
"""Bytes of a file that is shown; of a larger one (a dashboard) its name is all."""
Page = tuple[str, dict[str, Any], str]


class Shown:
    """What pages link to and is no page itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wanted: set[str] = set()

    def path(self, page: str, target: str) -> str | None:
        """The path of the file or folder that ``target`` names on ``page``, if any."""
        folder = self.root / Path(page).parent
        path = os.path.relpath(folder / target, self.root)
        inside = not path.startswith("..")
        return path if target and inside and (self.root / path).exists() else None

    def want(self, app: Sphinx, path: str) -> str:
        """The name of the page that shows ``path``."""
        document = app.env.path2doc(path)
        if document in app.env.found_docs:
            return document
        self.wanted.add(path)
        return PLACE + path


def _links(document: nodes.document) -> Iterator[tuple[nodes.Element, str]]:
    for node in list(document.findall(nodes.Element)):
        download = isinstance(node, addnodes.download_reference)
        myst = isinstance(node, addnodes.pending_xref) and node["reftype"] == "myst"
        if download or (myst and node["refdomain"] != "doc"):
            yield node, node["reftarget"]


def _point(shown: Shown, app: Sphinx, document: nodes.document) -> None:
    page = app.env.current_document.docname
    for node, target in _links(document):
        path = shown.path(page, target)
        if path is None or Path(path).suffix in PICTURES:
            continue
        uri = app.builder.get_relative_uri(page, shown.want(app, path))
        link = nodes.reference("", "", *node.children, refuri=uri, internal=True)
        if not link.astext():
            link += nodes.literal(target, target)
        node.replace_self(link)


def _purpose(path: Path) -> str:
    """What a module says it is; what an alert means, of its runbook."""
    if path.suffix == ".md":
        meaning = path.read_text().partition("## Meaning\n")[2].partition("\n\n")[0]
        return meaning.replace("\n", " ").replace("`", "")
    if path.suffix != ".py":
        return ""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return said.partition("\n\n")[0].replace("\n", " ")


def _listed(app: Sphinx, shown: Shown, folder: str) -> str:
    here, terms = PLACE + folder, list[str]()
    for path in sorted((shown.root / folder).iterdir()):
        if path.name.startswith(("__", ".")) or path.suffix == ".pyc":
            continue
        name = html.escape(path.name.removesuffix(".md") + "/" * path.is_dir())
        if path.is_dir() or path.stat().st_size <= LARGEST:
            page = shown.want(app, str(path.relative_to(shown.root)))
            uri = app.builder.get_relative_uri(here, page)
            name = f'<a href="{html.escape(uri)}">{name}</a>'
        terms.append(f"<dt>{name}</dt><dd>{html.escape(_purpose(path))}</dd>")
    return f'<dl class="files">{"".join(terms)}</dl>'


def _body(app: Sphinx, shown: Shown, path: str) -> str:
    file = shown.root / path
    if file.is_dir():
        return _listed(app, shown, path)
    text = file.read_text()
    try:
        lexer = get_lexer_for_filename(path).aliases[0]
    except ClassNotFound:
        lexer = "text"
    builder = cast("StandaloneHTMLBuilder", app.builder)
    return builder.highlighter.highlight_block(text, lexer, force=True)


def _pages(shown: Shown, app: Sphinx) -> Iterator[Page]:
    made: set[str] = set()
    while waiting := sorted(shown.wanted - made):
        for path in waiting:
            made.add(path)
            title = html.escape(path)
            heading = title.replace("/", "/<wbr>")
            body = f'<h1 class="path">{heading}</h1>{_body(app, shown, path)}'
            yield (
                PLACE + path,
                {"parents": [], "title": path, "body": body},
                "page.html",
            )


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks each extension for this."""
    shown = Shown(Path(app.srcdir))
    # Before downloads are collected, at 500.
    app.connect("doctree-read", partial(_point, shown), priority=400)
    app.connect("html-collect-pages", partial(_pages, shown))
    return {"parallel_read_safe": False}
