"""What a linter has to say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong. ``check`` is named as in the linter it is taken from."""

    check: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSeries:
    """What can be asked for."""

    labels: Mapping[str, frozenset[str]]
    """Of each sample that is exported."""
    counters: frozenset[str]
    recorded: frozenset[str]
    runbooks: frozenset[str]
    """Names of the pages that there are."""
    panels: Mapping[str, frozenset[int]]
    """Ids of the panels of each dashboard."""


def names(complaints: Iterable[Complaint]) -> set[str]:
    """The checks that complain."""
    return {one.check for one in complaints}
