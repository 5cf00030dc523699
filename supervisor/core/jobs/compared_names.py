"""Names of what two runs left that is not the same, in the words of who wrote the script.

A run's state is compared by paths such as ``local.data.rows[0]``; of them a person knows the
weights of the model by name, and that the training data, or the loss, are not the same.
"""

import re
from collections.abc import Iterable

NAMED = 8
"""Of one kind so many are named."""

_KINDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"model:(?P<name>.+)"), "weights"),
    (re.compile(r"optimizer:(?P<name>.+)"), "optimizer"),
    (re.compile(r"metric:(?P<name>.+)"), "metrics"),
    (
        re.compile(r"callbacks\[\d+\]\.attributes\.history\.(?P<name>[^.\[]+).*"),
        "History",
    ),
    (
        re.compile(r"callbacks\[\d+\]\.attributes\.(?P<name>[^.\[]+).*"),
        "attributes of callbacks",
    ),
    (re.compile(r"callbacks\[\d+\](?P<name>).*"), "callbacks"),
    (re.compile(r"local\.data\b(?P<name>).*"), "training data"),
    (re.compile(r"local\.logs\.(?P<name>[^.\[]+).*"), "logs of the epoch"),
    (re.compile(r"local\.(?P<name>)(?:.*)"), "where training stands"),
)
"""The first that matches a path says what it is; of ``name`` a person is told."""
_FIT = re.compile(r"(?P<path>.*?)(?P<fit> \(fit \d+\))?")


def in_words(paths: Iterable[str]) -> list[str]:
    """What differs, a kind an entry; what is of no known kind, such as a file, as it is."""
    found: dict[str, dict[str, None]] = {}
    for path in paths:
        kind, name = _kind_of(path)
        found.setdefault(kind, {}).update({name: None} if name else {})
    return [_told(kind, list(names)) for kind, names in found.items()]


def _kind_of(path: str) -> tuple[str, str]:
    parts = _FIT.fullmatch(path)
    assert parts is not None  # noqa: S101  # it matches all
    bare, fit = parts["path"], parts["fit"] or ""
    for pattern, kind in _KINDS:
        match = pattern.fullmatch(bare)
        if match is not None:
            return f"{kind}{fit}", match["name"]
    return path, ""


def _told(kind: str, names: list[str]) -> str:
    if not names:
        return kind
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{kind} ({', '.join(names[:NAMED])}{more})"
