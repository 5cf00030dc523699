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
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.standby_messages import (
    FRAMEWORKS,
    ImportRecord,
    difference,
)
from trainers.process.environment.module_state import is_initializing

ASKED_FOR = (
    *("ABSL_", "CUDA_", "CUDNN_", "GOTO_", "GRPC_", "HOME", "JAX_", "KERAS_", "KMP_"),
    *("LC_", "LD_", "MKL_", "NCCL_", "NPY_", "NUMPY_", "NVIDIA_", "OMP_", "OPENBLAS_"),
    *("PROTOCOL_BUFFERS_", "PYTHON", "ROCM_", "TF_", "TORCH_", "VECLIB_", "XLA_"),
)
"""How the variables begin that the imports of the frameworks depend on."""


def context(name: str, initial: dict[str, str]) -> ImportRecord:
    """The circumstances in which ``name`` would be imported now; ``initial``: the
    environment that this process began with."""
    return ImportRecord(
        name=name,
        environment=_of_frameworks(difference(initial, dict(os.environ))),
        path=tuple(sys.path),
        directory=_here(),
        processors=tuple(sorted(os.sched_getaffinity(0))),
        draws=drawn(),
    )


def _here() -> str:
    """The working directory; empty: it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _of_frameworks(changes: dict[str, str | None]) -> dict[str, str | None]:
    """Without those that no import asks for: they may be secrets, and this is kept."""
    return {
        name: value for name, value in changes.items() if name.startswith(ASKED_FOR)
    }


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
            known = context(fullname, self._initial)
            self._records[fullname] = replace(known, within=_being_imported())
            records = [one.to_json() for one in self._records.values()]
            with contextlib.suppress(OSError, TypeError, ValueError):
                write_json(self._path, {"imports": records})
        return None


def _being_imported() -> tuple[str, ...]:
    found = [
        name
        for name, module in list(sys.modules.items())
        if "." not in name and is_initializing(module)
    ]
    return tuple(sorted(found))


def is_nested(name: str) -> bool:
    """Whether another framework asks for it, while that is imported itself."""
    others = (sys.modules.get(one) for one in FRAMEWORKS if one != name)
    return any(map(is_initializing, others))
