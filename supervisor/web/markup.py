"""HTML and SVG as values: text is escaped where it is written, always.

There is no way to put markup in by a string, so that what a job printed stays what it is:
data. The last step, ``render``, sees every text; redaction is done there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from supervisor.core.text.visible import visible

Node: TypeAlias = "Element | Verbatim | str | None"
"""An element, a text, or nothing."""
Nodes: TypeAlias = "Node | Iterable[Node]"

_ALONE = frozenset({"meta", "link", "br", "hr", "path", "rect", "line", "circle"})
"""Elements without content; those of SVG are closed in themselves."""
_SPOKEN = frozenset({"aria-label", "title", "alt"})
"""Attributes that people read: redacted as text is."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element. Attributes that are None are left out."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Style or script of our own; never what anybody else said."""

    name: str
    content: str


def tag(element: str, /, *children: Nodes, **attributes: object) -> Element:
    """An element; ``class_`` is ``class`` and ``aria_label`` is ``aria-label``."""
    named = {
        key.rstrip("_").replace("_", "-"): _written(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    return Element(element, named, tuple(_flat(children)))


def _written(value: object) -> str:
    if value is True:
        return ""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _flat(children: Iterable[Nodes]) -> Iterable[Node]:
    for child in children:
        if child is None or isinstance(child, (Element, Verbatim, str)):
            yield child
        else:
            yield from child


Redaction: TypeAlias = Callable[[str], str]


def as_it_is(text: str) -> str:
    """No redaction."""
    return text


def render(node: Node, *, redact: Redaction = as_it_is) -> str:
    """The text of a document, or of a part of one."""
    if node is None:
        return ""
    if isinstance(node, str):
        return escape(visible(redact(node)), quote=False)
    if isinstance(node, Verbatim):
        return f"<{node.name}>{node.content}</{node.name}>"
    opened = "".join(
        f' {name}="{escape(_said(name, value, redact))}"'
        for name, value in node.attributes.items()
    )
    if node.name in _ALONE:
        return f"<{node.name}{opened}/>"
    inner = "".join(render(child, redact=redact) for child in node.children)
    return f"<{node.name}{opened}>{inner}</{node.name}>"


def _said(name: str, value: str, redact: Redaction) -> str:
    return visible(redact(value)) if name in _SPOKEN else value
