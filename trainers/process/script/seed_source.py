"""Where a seed in a script comes from, as its source says: the clock, a uuid, a process id.

What is cut to a few digits (``time.time_ns() % 1000``) cannot be told from a number that
somebody wrote; the line that makes it can. Names are followed by assignments and by what
functions return, within a file; not through attributes of modules, containers or files.
"""

import ast
import itertools
from collections.abc import Iterator, Sequence

ASKED = frozenset({
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
    "process_time", "process_time_ns", "clock_gettime", "clock_gettime_ns", "now",
    "utcnow", "today", "getpid", "uuid1", "uuid4", "urandom", "getrandom",
    "token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow",
})  # fmt: skip
"""Functions that say something else in each attempt, by their last name."""
SEEDS = ("seed", "random_state", "rng")
"""Part of the name of a function, or of an argument, that takes a seed."""

Position = tuple[int, int, int, int]
"""Of an expression: first and last line from 1, first and last column from 0, in bytes."""
Scope = ast.AST
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class SeedSource:
    """The source of one file of the script."""

    def __init__(self, text: str) -> None:
        """Raises SyntaxError, ValueError: it is not the source of what runs."""
        self._tree = ast.parse(text)
        self._scopes: dict[ast.AST, Scope] = {}
        self._enter(self._tree, self._tree)
        self._fresh: set[tuple[Scope | None, str]] = set()
        """Names that hold what is fresh, by scope; of attributes and functions in all."""
        while self._follow():
            pass

    def _enter(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self._scopes[child] = scope
            self._enter(child, child if isinstance(child, _FUNCTIONS) else scope)

    def call_at(self, position: Position) -> ast.Call | None:
        """The call that stands exactly there."""
        for node in self._scopes:
            if isinstance(node, ast.Call) and position == _position(node):
                return node
        return None

    def is_fresh(self, call: ast.Call, *, named: bool) -> bool:
        """Whether an argument of ``call`` comes from what differs in each attempt.

        ``named``: only where the function or the argument is named after a seed, as
        libraries stand between this call and the generator.
        """
        if named and not _takes_seed(_last_name(call.func)):
            keywords = [one for one in call.keywords if _takes_seed(one.arg or "")]
            return any(self._has_fresh(one.value) for one in keywords)
        return any(self._has_fresh(one) for one in _arguments(call))

    def is_parameter(self, call: ast.Call) -> bool:
        """Whether an argument of it is one of the function that makes the call."""
        scope = self._scopes[call]
        if not isinstance(scope, _FUNCTIONS):
            return False
        given = scope.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
        known = {one.arg for one in every}
        inside = itertools.chain.from_iterable(map(ast.walk, _arguments(call)))
        return any(isinstance(one, ast.Name) and one.id in known for one in inside)

    # --- what is fresh ---------------------------------------------------------------

    def _follow(self) -> bool:
        """Whether another name was found that holds what is fresh."""
        before = len(self._fresh)
        for node, scope in self._scopes.items():
            for target, value in _given(node):
                if self._has_fresh(value):
                    self._fresh.update(_names(target, scope))
            if isinstance(node, ast.Return) and node.value is not None:
                self._follow_return(node.value, scope)
        return len(self._fresh) > before

    def _follow_return(self, value: ast.expr, scope: Scope) -> None:
        if isinstance(scope, ast.FunctionDef) and self._has_fresh(value):
            self._fresh.add((None, f"{scope.name}()"))

    def _has_fresh(self, value: ast.AST) -> bool:
        return any(map(self._is_fresh, ast.walk(value)))

    def _is_fresh(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            return name in ASKED or (None, f"{name}()") in self._fresh
        if isinstance(node, ast.Name):
            places = (self._scopes.get(node), self._tree)
            return any((place, node.id) in self._fresh for place in places)
        if isinstance(node, ast.Attribute):
            return (None, f".{node.attr}") in self._fresh
        return False


def _position(node: ast.expr) -> Position:
    return (
        node.lineno,
        node.end_lineno or node.lineno,
        node.col_offset,
        node.end_col_offset or node.col_offset,
    )


def _arguments(call: ast.Call) -> Sequence[ast.expr]:
    return (*call.args, *(one.value for one in call.keywords))


def _takes_seed(name: str) -> bool:
    return any(part in name.lower() for part in SEEDS)


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Target and value, where ``node`` gives a name one."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value:
        yield node.target, node.value


def _names(target: ast.expr, scope: Scope) -> Iterator[tuple[Scope | None, str]]:
    if isinstance(target, ast.Name):
        yield scope, target.id
    elif isinstance(target, ast.Attribute):
        yield None, f".{target.attr}"
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _names(one, scope)
