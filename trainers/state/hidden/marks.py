"""What names held at one time, by marks: so that it is seen what changed since."""

import collections
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from trainers.backends.selected import backend
from trainers.state import encode, object_state, pandas_state
from trainers.state.hidden import fingerprint
from trainers.state.hidden.owner import Owner
from trainers.state.hidden.reachable import Reached

CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)
PLAIN = (type(None), bool, int, float, str)
"""Types of values that a compiled function may have taken for good."""

Name = tuple[str, str]
"""Path of an owner, and a name of it."""


def marks_of(found: Reached) -> dict[Name, fingerprint.Mark]:
    """The mark of what each name holds."""
    return {
        (owner.path, name): _mark(value)
        for owner in found.owners.values()
        for name, value in values_of(owner)
    }


def plain_values(found: Reached) -> dict[Name, Any]:
    """What each name holds that holds a plain value."""
    return {
        (owner.path, name): value
        for owner in found.owners.values()
        for name, value in values_of(owner)
        if type(value) in PLAIN
    }


def values_of(owner: Owner) -> Iterator[tuple[str, Any]]:
    """The names of ``owner`` that there are, each with what it holds."""
    values = owner.values() if owner.names else {}
    return ((name, values[name]) for name in owner.names if name in values)


def _mark(value: Any) -> fingerprint.Mark:
    """Of an object of the script's only its class: its attributes have places of their
    own."""
    own = object_state.is_of_own_class(value) and not isinstance(value, CONTAINERS)
    own = own and not pandas_state.is_of_pandas(value)
    return encode.type_name(value) if own else fingerprint.of(value)


def changed(
    found: Reached, marks: Mapping[Name, fingerprint.Mark]
) -> Iterator[tuple[Name, Any]]:
    """What is new, or other than ``marks`` tell, with what it holds now.

    By name: an object that was made anew has its attributes in another order.
    """
    for path, owner in sorted(found.owners.items()):
        for name, value in sorted(values_of(owner), key=itemgetter(0)):
            place = (path, name)
            if place not in marks or marks[place] != _mark(value):
                yield place, value


def unchanged(found: Reached, values: Mapping[Name, Any]) -> Iterator[tuple[Name, Any]]:
    """What is not among the ``values`` to save."""
    for owner in found.owners.values():
        for name, value in values_of(owner):
            if (owner.path, name) not in values:
                yield (owner.path, name), value


def arrays_held(found: Reached, values: Mapping[Name, Any]) -> dict[int, Name]:
    """Where the arrays are that have not changed, by ``id``."""
    return {
        id(value): name
        for name, value in unchanged(found, values)
        if isinstance(value, np.ndarray)
    }


def mark_of_table(table: Any) -> fingerprint.Mark:
    """Of all that a lookup table holds."""
    return fingerprint.of(backend.hidden.table_content(table))


def nested(values: Mapping[Name, Any]) -> dict[str, dict[str, Any]]:
    """By owner, then by name: so that a comparison tells of both."""
    found: dict[str, dict[str, Any]] = {}
    for (path, name), value in values.items():
        found.setdefault(path, {})[name] = value
    return found


def flat(values: Mapping[str, Mapping[str, Any]]) -> dict[Name, Any]:
    """The opposite of ``nested``."""
    return {
        (path, name): value
        for path, named in values.items()
        for name, value in named.items()
    }
