"""The context of a framework's import: what the import may depend on, compared and kept.

A script may set variables (``KERAS_BACKEND``, ``TF_…``), change ``sys.path`` or draw random
numbers before it imports its framework. A standby imports before the script runs: it has to
do so under the same circumstances, or not at all.
"""

import contextlib
import hashlib
import os
import random
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from supervisor.wire.files import read_json, write_json
from supervisor.wire.standby_messages import FRAMEWORKS, ImportRecord, difference


def context(name: str, initial: dict[str, str]) -> ImportRecord:
    """The circumstances in which ``name`` would be imported now; ``initial``: the
    environment that this process began with."""
    return ImportRecord(
        name=name,
        environment=difference(initial, dict(os.environ)),
        path=tuple(sys.path),
        directory=str(Path.cwd()),
        processors=tuple(sorted(os.sched_getaffinity(0))),
        draws=drawn(),
    )


def drawn() -> str:
    """A digest of Python's global generator."""
    state = repr(random.getstate()).encode()
    return hashlib.blake2b(state, digest_size=16).hexdigest()


def read(path: Path) -> list[ImportRecord] | None:
    """What ``ImportRecorder`` wrote; None: nothing that is whole."""
    value = read_json(path)
    found = None if value is None else value.get("imports")
    if not isinstance(found, list):
        return None
    records = [ImportRecord.from_json(one) for one in found if isinstance(one, dict)]
    known = [one for one in records if one is not None]
    return known if len(known) == len(found) else None


class ImportRecorder:
    """A finder that finds nothing, and writes down how a script imports frameworks."""

    def __init__(self, path: Path, initial: dict[str, str]) -> None:
        self._path, self._initial = path, initial
        self._records: dict[str, ImportRecord] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """As ``importlib.abc.MetaPathFinder`` has it. To look is not to import: the last
        look before the import counts."""
        del path, target
        if fullname in FRAMEWORKS and not is_nested(fullname):
            self._records.pop(fullname, None)
            self._records[fullname] = context(fullname, self._initial)
            records = [one.to_json() for one in self._records.values()]
            with contextlib.suppress(OSError, TypeError, ValueError):
                write_json(self._path, {"imports": records})
        return None


def is_nested(name: str) -> bool:
    """Whether another framework asks for it, while that is imported itself."""
    others = (sys.modules.get(one) for one in FRAMEWORKS if one != name)
    specs = (getattr(one, "__spec__", None) for one in others if one is not None)
    return any(getattr(spec, "_initializing", False) for spec in specs)
