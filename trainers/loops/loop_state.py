"""The state of a loop of the script's own, in a snapshot: its record and its variables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainers.backends.selected import backend
from trainers.loops.call_table import CallTable, ChangedVariables
from trainers.loops.event_log import EventLog
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import LOOP
from trainers.snapshots.tensor_image import Tensor, of_array
from trainers.state import encode, variable_state

WHY_NOT = "loop_why_not"
FILES = "loop_files"
"""Those of its large files that were there, with when they were written, and size."""
EVENTS = "loop/events"
LEAST_ROOM = 1 << 16


@dataclass(slots=True)
class RecordedLoop:
    """What is recorded of a loop."""

    begin: int
    """Calls that the script made before its first."""
    log: EventLog = field(default_factory=lambda: EventLog(bytearray()))
    calls: CallTable = field(default_factory=lambda: CallTable([]))
    written: ChangedVariables = field(default_factory=ChangedVariables)
    files: dict[str, None] = field(default_factory=dict[str, None])
    """Large files that it wrote."""


class UnsavableError(Exception):
    """A variable that cannot be saved; the text says which."""


def capture(
    loop: RecordedLoop, *, why_not: str | None = None
) -> tuple[dict[str, Any], list[Tensor]]:
    """As JSON, and tensors. Raises UnsavableError.

    ``why_not``: why bits are not promised.
    """
    tensors: list[Tensor] = []
    names: list[str] = []
    numbers: list[int] = []
    for number, variable in loop.written.variables():
        name = str(getattr(variable, "name", number))
        found = variable_state.stored_as(name, variable, index=len(tensors))
        if isinstance(found, str):
            raise UnsavableError(found)
        tensors.append(found.stored)
        names.append(name)
        numbers.append(number)
    encoder = encode.StateEncoder(
        "other/",
        array_of=backend.values.framework_array,
        kind_of=backend.values.kind_of,
    )
    state = {
        "variables": names,
        "callbacks": [],
        "random": encoder.encode({}),
        "stop_training": False,
        "local": encoder.encode({}),
        LOOP: {
            "begin": loop.begin,
            "count": loop.log.count,
            "calls": loop.calls.to_json(),
            "numbers": numbers,
            "files": list(loop.files),
            "bytes": len(loop.log.data),
        },
        WHY_NOT: why_not,
        FILES: {one: _stamp(one) for one in loop.files if is_there(one)},
    }
    events = np.zeros(room_for(len(loop.log.data)), np.uint8)
    events[: len(loop.log.data)] = loop.log.data
    return state, [*tensors, of_array(EVENTS, events)]


def room_for(nbytes: int) -> int:
    """Bytes that a record of so many is stored in: they seldom change.

    A snapshot goes to memory that was prepared for tensors of the same sizes.
    """
    quarter = max(LEAST_ROOM, 1 << max(nbytes - 1, 1).bit_length()) // 8
    return -(-max(nbytes, LEAST_ROOM) // quarter) * quarter


def variable_bytes(loop: RecordedLoop) -> int:
    """What its variables take."""
    found = (variable for _, variable in loop.written.variables())
    return sum(one.dtype.size * (one.shape.num_elements() or 0) for one in found)


def why_not_exact(taken: Snapshot) -> str | None:
    """Why bits were not promised when it was taken."""
    because: str | None = taken.manifest.state[WHY_NOT]
    return because


def begin_of(taken: Snapshot) -> int:
    """Calls that the script had made before the first of the loop."""
    begin: int = taken.manifest.state[LOOP]["begin"]
    return begin


def recorded(taken: Snapshot) -> RecordedLoop:
    """The loop of ``taken``, its record not yet read."""
    found = taken.manifest.state[LOOP]
    return RecordedLoop(
        found["begin"],
        EventLog(bytearray(taken.tensors[EVENTS][: found["bytes"]].tobytes())),
        CallTable(found["calls"]),
        files=dict.fromkeys(found["files"]),
    )


def is_there(path: str) -> bool:
    """A file, or a checkpoint of that prefix."""
    return Path(path).exists() or Path(f"{path}.index").exists()


def gone(taken: Snapshot) -> str | None:
    """A file that the loop had written then, and that is not there now."""
    there: dict[str, list[int]] = taken.manifest.state[FILES]
    return next((one for one in there if not is_there(one)), None)


def later(taken: Snapshot) -> set[str]:
    """Files that it has written again since: they hold what is to come."""
    there: dict[str, list[int]] = taken.manifest.state[FILES]
    return {one for one, stamp in there.items() if _stamp(one) != stamp}


def _stamp(path: str) -> list[int]:
    """When a file, or the index of a checkpoint, was written (ns), and its bytes."""
    found = Path(path) if Path(path).exists() else Path(f"{path}.index")
    try:
        status = found.stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size]


def put_back(loop: RecordedLoop, taken: Snapshot) -> str | None:
    """Give the variables their values; why they are not those of ``taken``, or None.

    What the script has dropped since is left out, and so is what it had dropped then.
    """
    found = dict(loop.written.variables())
    numbers: list[int] = taken.manifest.state[LOOP]["numbers"]
    if numbers and max(numbers) >= len(loop.written.handles):
        return f"its calls change {len(loop.written.handles)} variables"
    pairs: list[tuple[Any, np.ndarray]] = []
    for index, number in enumerate(numbers):
        if number not in found:
            continue
        described = variable_state.stored_as("", found[number], index=index)
        array = taken.tensors[variable_state.tensor_name(index)]
        if isinstance(described, str) or described.shape != array.shape:
            return f"variable {number} has another shape"
        pairs.append((found[number], described.value(array)))
    for variable, array in pairs:
        backend.values.assign(variable, array)
    return None
