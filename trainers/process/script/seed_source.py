"""Where a seed in a script comes from, as its source says: the clock, a uuid, a process id.

What is cut to a few digits (``time.time_ns() % 1000``) cannot be told from a number that
somebody wrote; the line that makes it can. A name is followed where the file gives it one
value only, and under no condition: a seed that is the clock's unless one was given may be
one that was given. What hides in a container, a text or a method's result is not followed.
"""

import ast
from collections import defaultdict
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

CONVERT = frozenset(
    {"abs", "float", "from_bytes", "hash", "int", "round", "str", "uint32"}
)
"""Functions that make a number of their arguments, by their last name."""

Position = tuple[int, int, int, int]
"""Of an expression: first and last line from 1, first and last column from 0, in bytes."""
Scope = ast.AST
Key = tuple[Scope | None, str]
"""A name in its scope; of attributes and functions in all."""
Parameters = Sequence[tuple[str, int]]
"""Each by its name, and by its place among those that a call gives."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CONDITIONS = (ast.If, ast.IfExp, ast.Try, ast.While, ast.For, ast.BoolOp, ast.Match)


class SeedSource:
    """The source of one file of the script."""

    def __init__(self, text: str) -> None:
        """Raises SyntaxError, ValueError: it is not the source of what runs."""
        self._tree = ast.parse(text)
        self._scopes: dict[ast.AST, Scope] = {}
        self._given: dict[Key, list[ast.expr | None]] = defaultdict(list)
        """The values of each name; None: not always, or not known."""
        self._enter(self._tree, self._tree, conditional=False)
        self._fresh: set[Key] = set()
        """Names that hold what is fresh."""
        while self._follow():
            pass

    def _enter(self, node: ast.AST, scope: Scope, *, conditional: bool) -> None:
        for child in ast.iter_child_nodes(node):
            self._scopes[child] = scope
            inner = child if isinstance(child, _FUNCTIONS) else scope
            within = isinstance(child, _CONDITIONS) and not _is_main(child)
            maybe = within or (conditional and inner is scope)
            for key, value in _assigned(child, scope, self._tree):
                self._given[key].append(None if maybe else value)
            self._enter(child, inner, conditional=maybe)

    def call_at(self, position: Position) -> ast.Call | None:
        """The call that stands exactly there."""
        for node in self._scopes:
            if isinstance(node, ast.Call) and position == _position(node):
                return node
        return None

    def seeds(self, call: ast.Call, *, named: bool) -> Sequence[ast.expr]:
        """The arguments of ``call`` that are seeds. ``named``: only where the function or
        the argument is named after a seed, as libraries stand between this call and the
        generator."""
        if named and not _takes_seed(_last_name(call.func)):
            return [one.value for one in call.keywords if _takes_seed(one.arg or "")]
        return (*call.args, *(one.value for one in call.keywords))

    def is_fresh(self, values: Sequence[ast.expr]) -> bool:
        """Whether one of ``values`` comes from what differs in each attempt."""
        return any(map(self._is_fresh, values))

    def parameters(self, call: ast.Call, values: Sequence[ast.expr]) -> Parameters:
        """Those of the function that makes ``call`` which ``values`` are made of."""
        scope = self._scopes[call]
        if not isinstance(scope, _FUNCTIONS):
            return ()
        known = [one.arg for one in (*scope.args.posonlyargs, *scope.args.args)]
        places = {name: place for place, name in enumerate(known)}
        places.update((one.arg, -1) for one in scope.args.kwonlyargs)
        bound = int(known[:1] in (["self"], ["cls"]))
        inside = {
            one.id
            for value in values
            for one in ast.walk(value)
            if isinstance(one, ast.Name)
        }
        return [(name, places[name] - bound) for name in inside & places.keys()]

    def given(self, call: ast.Call, parameters: Parameters) -> Sequence[ast.expr]:
        """What ``call`` gives for ``parameters`` of the function that it calls."""
        names = {name for name, _ in parameters}
        found = [one.value for one in call.keywords if one.arg in names]
        if not any(isinstance(one, ast.Starred) for one in call.args):
            last = len(call.args)
            found += [call.args[place] for _, place in parameters if 0 <= place < last]
        return found

    # --- what is fresh ---------------------------------------------------------------

    def _follow(self) -> bool:
        """Whether another name was found that holds what is fresh."""
        before = len(self._fresh)
        for key, values in self._given.items():
            (value, *others) = values
            if value is not None and not others and self._is_fresh(value):
                self._fresh.add(key)
        return len(self._fresh) > before

    def _is_fresh(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return self._is_fresh_call(node)
        if isinstance(node, ast.Name):
            places = (self._scopes.get(node), self._tree)
            return any((place, node.id) in self._fresh for place in places)
        if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Call):
            return (None, f".{node.attr}") in self._fresh
        return any(map(self._is_fresh, _made_of(node)))

    def _is_fresh_call(self, node: ast.Call) -> bool:
        function, name = node.func, _last_name(node.func)
        if name in ASKED:
            return True
        if isinstance(function, ast.Name) and (None, f"{name}()") in self._fresh:
            return True
        if name in CONVERT and any(map(self._is_fresh, node.args)):
            return True
        return isinstance(function, ast.Attribute) and self._is_fresh(function.value)


def _made_of(node: ast.expr) -> Sequence[ast.expr]:
    """The numbers that a number is made of."""
    match node:
        case ast.BinOp():
            return node.left, node.right
        case ast.UnaryOp(operand=value) | ast.NamedExpr(value=value):
            return (value,)
        case ast.Attribute(value=value) | ast.Subscript(value=value, slice=ast.Slice()):
            return (value,)
        case _:
            return ()


def _position(node: ast.expr) -> Position:
    return (
        node.lineno,
        node.end_lineno or node.lineno,
        node.col_offset,
        node.end_col_offset or node.col_offset,
    )


def _takes_seed(name: str) -> bool:
    return any(part in name.lower() for part in SEEDS)


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_main(node: ast.AST) -> bool:
    """Whether it is the ``if`` of a script's main part."""
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _assigned(
    node: ast.AST, scope: Scope, tree: ast.Module
) -> Iterator[tuple[Key, ast.expr | None]]:
    """Each name that ``node`` gives a value, and that; None: not known."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _names(target, value, scope)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _names(target, value, scope)
        case ast.NamedExpr(target=target, value=value):
            yield from _names(target, value, scope)
        case ast.AugAssign(target=target) | ast.For(target=target):
            yield from _names(target, None, scope)
        case ast.Return(value=ast.expr() as value) if isinstance(
            scope, ast.FunctionDef
        ):
            known = scope in tree.body
            yield (None, f"{scope.name}()"), value if known else None


def _names(
    target: ast.expr, value: ast.expr | None, scope: Scope
) -> Iterator[tuple[Key, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield (scope, target.id), value
    elif isinstance(target, ast.Attribute):
        yield (None, f".{target.attr}"), value
    elif isinstance(target, (ast.Tuple, ast.List)):
        each = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        alike = len(each) == len(target.elts)
        for place, one in enumerate(target.elts):
            yield from _names(one, each[place] if alike else None, scope)
