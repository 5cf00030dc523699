"""Parts of PromQL expressions, as far as a linter needs them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

AGGREGATIONS = ("avg", "bottomk", "count", "group", "max", "min", "quantile", "stddev",
                "stdvar", "sum", "topk")  # fmt: skip
RATES = ("increase", "irate", "rate")
SELECTOR = re.compile(r"(?<![\w:.])((?:\w+:)?[a-zA-Z_]\w*(?::\w+)?)\s*\{([^}]*)\}")
MATCHER = re.compile(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"")
SERIES = re.compile(
    r"(?<![\w:.$])((?:[a-z_]+:)?trainwarden_\w+(?::\w+)?|up|ALERTS)\b(?!:)"
)
BY = re.compile(r"\b(by|without)\s*\(([^)]*)\)")
ON = re.compile(r"\b(?:on|ignoring)\s*\(([^)]*)\)")
SPAN = re.compile(r"\[([^\]:]+)[^\]]*\]|\boffset (\w+)")
COMPARISON = re.compile(r"(?<![=!~])(?:==|!=|>=|<=|>|<)(?!~)")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, or an aggregation."""

    name: str
    inner: str
    """What stands in its parentheses."""
    by: frozenset[str] | None
    """The labels that an aggregation keeps; None: it does not say."""


def without_strings(expr: str) -> str:
    """The expression, with nothing in its strings."""
    return re.sub(r'"[^"]*"', '""', expr)


def labels(text: str) -> frozenset[str]:
    """Labels in parentheses."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def closing(text: str, opened: int) -> int:
    """Where the parenthesis at ``opened`` is closed, or the end of the text."""
    depth = 0
    for place in range(opened, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def calls(expr: str, names: tuple[str, ...]) -> Iterator[Call]:
    """The calls of these, wherever they stand."""
    head = re.compile(rf"\b({'|'.join(names)})\s*(?:by\s*\(([^)]*)\))?\s*\(")
    for found in head.finditer(expr):
        end = closing(expr, found.end() - 1)
        after = BY.match(expr[end + 1 :].lstrip())
        by = found[2] if found[2] is not None else after[2] if after else None
        kept = None if by is None else labels(by)
        yield Call(found[1], expr[found.end() : end], kept)


def series(expr: str) -> frozenset[str]:
    """Names of what is asked for."""
    return frozenset(SERIES.findall(without_strings(expr)))


def seconds(span: str) -> int:
    """A duration as Prometheus writes it. Raises ValueError: it is none."""
    parts = re.findall(r"(\d+)([smhdw])", span)
    if not parts or "".join(map("".join, parts)) != span:
        raise ValueError(span)
    return sum(int(number) * SECONDS[unit] for number, unit in parts)


def spans(expr: str) -> Iterator[str]:
    """Windows and offsets."""
    return (window or offset for window, offset in SPAN.findall(expr))
