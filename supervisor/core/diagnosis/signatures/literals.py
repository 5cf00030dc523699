"""Required literals of a regular expression: a prefilter, as grep and RE2 have one."""

import re
from collections.abc import Iterator

_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]])*\]|\(\?<?[:=!]|\{[\d,]+\}|.", re.DOTALL)


def required_literals(pattern: str) -> tuple[str, ...]:
    """Texts of which one stands in whatever ``pattern`` matches; empty: none is sure.

    Of the parts that follow each other in an alternative, the one whose shortest text
    is the longest: it is in the fewest lines. Named groups and flags are not known.
    """
    return _alternatives(iter(_SIGN.findall(pattern)))


def _alternatives(signs: Iterator[str]) -> tuple[str, ...]:
    """Those of a group, up to where it ends: each of its alternatives has some."""
    branches: list[list[str | tuple[str, ...]]] = [[]]
    for sign in signs:
        parts = branches[-1]
        if sign == ")":
            break
        if sign == "|":
            branches.append([])
        elif sign.startswith("("):
            inside, looks_around = _alternatives(signs), sign not in {"(", "(?:"}
            parts.append(() if looks_around else inside)
        elif sign[0] in "?*{":
            parts[-1:] = [()]  # what stands before may be missing
        else:
            parts.append(_literal(sign))
    best = [_best(parts) for parts in branches]
    return tuple(dict.fromkeys(one for some in best for one in some if all(best)))


def _literal(sign: str) -> str | tuple[str, ...]:
    """The character that a sign stands for; empty: it is one of several, or none."""
    if sign.startswith("\\") and not sign[1].isalnum():
        return sign[1]
    return sign if len(sign) == 1 and sign not in ".^$+" else ()


def _best(parts: list[str | tuple[str, ...]]) -> tuple[str, ...]:
    found: list[tuple[str, ...]] = []
    run = ""
    for part in (*parts, ()):
        if isinstance(part, str):
            run += part
        else:
            found += [(run,), part]
            run = ""
    known = (one for one in found if one and all(one))
    return max(known, key=lambda one: min(map(len, one)), default=())
