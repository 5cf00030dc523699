"""What the files of an attempt tell who looks back: epochs, versions, its last words, the
map of its failure. They are read with the rights of who asks; what is not there, or cannot
be read, is empty."""

import math
from dataclasses import dataclass, field
from typing import Any, cast

from supervisor.core.memory.bfc_map import MemoryMap
from supervisor.core.memory.oom_analysis import labels
from supervisor.core.text.plain import plain
from supervisor.host.telemetry.allocator_dump import read_first_map
from supervisor.host.telemetry.log_parts import read_part
from supervisor.wire.event_file import EventReader, Record, RecordKind
from supervisor.wire.files import read_json
from supervisor.wire.messages.memory_answer import MemoryAnswer
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.end_records import CrashReport

LOG_LINES = 60
"""The end of its log."""
MOST_POLLS = 16
"""Of the event file, 4 MiB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLogs:
    """What Keras told at the end of an epoch."""

    epoch: int
    """From 0."""
    step: int
    logs: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvidence:
    """Of one attempt."""

    epochs: tuple[EpochLogs, ...] = ()
    versions: dict[str, str] = field(default_factory=dict[str, str])
    log_tail: str = ""
    traceback: str = ""
    memory_map: MemoryMap | None = None
    labels: dict[int, str] = field(default_factory=dict[int, str])
    """Names of variables by the address of their value."""


def read_evidence(paths: AttemptPaths) -> AttemptEvidence:
    """All of it."""
    records = _records(paths)
    crash = read_json(paths.crash)
    report = None if crash is None else CrashReport.from_json(crash)
    answer = read_json(paths.memory_answer)
    known = None if answer is None else MemoryAnswer.from_json(answer)
    return AttemptEvidence(
        epochs=epochs_of(records),
        versions=versions_of(records),
        log_tail=log_tail(paths),
        traceback="" if report is None else plain(report.traceback),
        memory_map=read_first_map(paths.dumps),
        labels=labels(known),
    )


def read_epochs(paths: AttemptPaths) -> tuple[EpochLogs, ...]:
    """Those alone."""
    return epochs_of(_records(paths))


def log_tail(paths: AttemptPaths) -> str:
    """The last lines that it printed, as they looked on its terminal, without colours."""
    _, content = read_part(paths.output, None)
    text = plain(content.decode(errors="replace"))
    return "\n".join(text.splitlines()[-LOG_LINES:])


def _records(paths: AttemptPaths) -> list[Record]:
    reader, found = EventReader(paths.events), list[Record]()
    for _ in range(MOST_POLLS):
        new = reader.poll()
        if not new:
            break
        found += new
    reader.close()
    return found


def epochs_of(records: list[Record]) -> tuple[EpochLogs, ...]:
    """The epochs that ended; what is no number is left out."""
    found = [_epoch(r.fields) for r in records if r.kind == RecordKind.EPOCH_ENDED]
    return tuple(one for one in found if one is not None)


def _epoch(fields: dict[str, Any]) -> EpochLogs | None:
    epoch, step, logs = (fields.get(name) for name in ("epoch", "step", "logs"))
    if type(epoch) is not int or type(step) is not int or not isinstance(logs, dict):
        return None
    given = cast("dict[object, object]", logs)
    known = {
        str(name)[:80]: float(value)
        for name, value in list(given.items())[:40]
        if isinstance(value, (int, float)) and math.isfinite(value)
    }
    return EpochLogs(epoch=epoch, step=step, logs=known)


def versions_of(records: list[Record]) -> dict[str, str]:
    """Of Python and what was imported."""
    found: dict[str, str] = {}
    for record in records:
        told = record.fields.get("versions")
        if record.kind == RecordKind.LAUNCHED and isinstance(told, dict):
            given = cast("dict[object, object]", told)
            found |= {str(name)[:40]: str(v)[:80] for name, v in given.items()}
    return found
