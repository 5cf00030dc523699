"""Lines of a script where its functions change what lives outside of them.

Training calls functions (callbacks, losses, layers, generators of data); what they keep in
globals, closures and iterators is state that a restart may not put back. The search is by
syntax: it names where to look, and no more than that.
"""

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

MUTATORS = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert",
    "pop", "popitem", "popleft", "remove", "reverse", "rotate", "send", "setdefault",
    "sort", "update", "write", "writelines",
})  # fmt: skip
"""Methods of the standard library's collections, generators and files that change them."""
LONGEST = 60
"""Of a line so many characters are shown."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, order=True)
class ChangingLine:
    """A line in a function that changes what ``name`` stands for outside of it."""

    number: int
    name: str
    code: str

    @override
    def __str__(self) -> str:
        """As a person is pointed to it."""
        return f"line {self.number}: {self.code}"


def changing_lines(source: str) -> tuple[ChangingLine, ...]:
    """All of ``source`` (a script's text), in order; nothing where it is not Python."""
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # about its source: not asked for
            tree = ast.parse(source)
        found = set(_in(tree, frozenset(), modules=_modules(tree), inside=False))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    # As Python counts lines: other separators, such as a form feed, end none.
    text = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return tuple(
        ChangingLine(number, name, _shown(text[number - 1]))
        for number, name in sorted(found)
    )


def likeliest(
    lines: Sequence[ChangingLine], sentence: str | None, most: int
) -> tuple[ChangingLine, ...]:
    """At most ``most``: those whose name ``sentence`` (why bits are not promised) has in it;
    where nothing was said, the first of all. Each line once, though it may change several
    names."""
    words = set(_words(sentence or ""))
    named = [line for line in lines if line.name in words or not sentence]
    once = {line.number: line for line in reversed(named)}
    return tuple(once[number] for number in sorted(once))[:most]


def _words(sentence: str) -> list[str]:
    spaced = "".join(c if c.isalnum() or c == "_" else " " for c in sentence)
    return spaced.split()


def _shown(line: str) -> str:
    code = line.strip()
    return code if len(code) <= LONGEST else f"{code[: LONGEST - 1]}…"


def _modules(tree: ast.AST) -> frozenset[str]:
    """Names of modules: what is called of them (``np.append``) changes no module."""
    return frozenset(
        one.asname or one.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for one in node.names
    )


def _in(
    node: ast.AST, local: frozenset[str], *, modules: frozenset[str], inside: bool
) -> Iterator[tuple[int, str]]:
    """Changes at and below ``node``; ``local``: names of the function that it is in."""
    if isinstance(node, _Function):
        local, inside = _local_to(node), True
    elif inside:
        for name in _changed_by(node, modules):
            if name not in local:
                yield getattr(node, "lineno", 1), name
    for child in ast.iter_child_nodes(node):
        yield from _in(child, local, modules=modules, inside=inside)


def _changed_by(node: ast.AST, modules: frozenset[str]) -> Iterator[str]:
    """Names whose values ``node`` itself changes."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            yield from (name for one in targets for name in _target(one))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _target(target)
        case ast.Call(func=ast.Name(id="next"), args=[ast.Name(id=name), *_]):
            yield name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in modules:
            pass
        case ast.Call(func=ast.Attribute(value=value, attr=method)):
            if method in MUTATORS:
                yield from _root(value)
        case _:
            pass


def _target(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _target(one)
    else:
        yield from _root(target)


def _root(value: ast.expr) -> Iterator[str]:
    """The name at the bottom of ``name.attribute[key]``; nothing for other expressions."""
    while isinstance(value, ast.Attribute | ast.Subscript | ast.Starred):
        value = value.value
    if isinstance(value, ast.Name):
        yield value.id


def _local_to(function: _Function) -> frozenset[str]:
    """Parameters, and what is bound in the function and declared in no outer scope."""
    given = function.args
    names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    names |= {one.arg for one in (given.vararg, given.kwarg) if one is not None}
    outer = set[str]()
    for node in _own_nodes(function):
        match node:
            case ast.Global(names=declared) | ast.Nonlocal(names=declared):
                outer |= set(declared)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case (
                ast.FunctionDef(name=str(name))
                | ast.AsyncFunctionDef(name=str(name))
                | ast.ClassDef(name=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                names.add(name)
            case _:
                pass
    return frozenset(names - outer)


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """All nodes of the function but those of functions and classes within it."""
    body = function.body if isinstance(function.body, list) else [function.body]
    left: list[ast.AST] = [*body]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef):
            left += ast.iter_child_nodes(node)
