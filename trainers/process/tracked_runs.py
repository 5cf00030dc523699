"""The runs that a script has begun with an experiment tracker, for the next attempts.

A script begins them in the same order each time, so a run is known by which one it is
among those of the same names. They lie beside the run, where ``--fresh`` finds none.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.wire.files import read_json, write_json

FILE = "trackers.json"
_PASSING = re.compile(
    r"\d[\d\-_:.T ]{5,}\d"  # a date, a time
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a UUID
    r"|(?=[a-f]{0,7}\d)[0-9a-f]{8,}",  # another random id
    re.IGNORECASE,
)


def label_of(names: Sequence[object]) -> str:
    """What stays of ``names`` from one attempt to the next: not the times and random ids
    in them."""
    return json.dumps([_lasting(one) for one in names])


def _lasting(name: object) -> str | None:
    return None if name is None else _PASSING.sub("#", str(name))


class TrackedRuns:
    """Their ids by tracker, label and number, in a file of the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: dict[str, dict[str, list[str]]] = _checked(read_json(path) or {})

    def earlier(self, tracker: str, label: str, number: int) -> str | None:
        """The id of the run of an earlier attempt; None: there was none."""
        known = self._ids.get(tracker, {}).get(label, [])
        return known[number] if number < len(known) else None

    def remember(self, tracker: str, label: str, number: int, run_id: str) -> None:
        """From the next attempt on, it is this one."""
        if self.earlier(tracker, label, number) == run_id:
            return
        known = self._ids.setdefault(tracker, {}).setdefault(label, [])
        known[number:] = [run_id, *known[number + 1 :]]
        with contextlib.suppress(OSError):  # of a full disk: then it is a new run
            write_json(self._path, self._ids)


def _checked(found: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """``found``, if it is what ``remember`` writes; else nothing."""
    try:
        return {
            tracker: {label: [str(one) for one in ids] for label, ids in labels.items()}
            for tracker, labels in found.items()
        }
    except (AttributeError, TypeError):
        return {}
