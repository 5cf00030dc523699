"""The ledger, killed at any write, and after power was lost: never corrupt, and no
incident lost or doubled.

One process keeps a ledger while every call that changes its files is written down; what
a disk would hold after the first n calls is then made n times, with what was not synced
dropped in part. More cuts by ``TRAINWARDEN_CUTS`` (`make crashes`).
"""

import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from supervisor.host.ledger.ledger import Ledger, LedgerError

CUTS = int(os.environ.get("TRAINWARDEN_CUTS", "30"))
SOURCE = Path(__file__).parents[3] / "support" / "native" / "calls.c"
HEAD = struct.Struct("<cQQQ")
WORK = """
import sys
from dataclasses import replace
from pathlib import Path
from supervisor.core.causes import Cause
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.jobs.job_status import JobState
from supervisor.core.diagnosis.result import Diagnosis, Remedy, RemedyKind
from supervisor.host.ledger.ledger import Ledger, LedgerError

where = Path(sys.argv[1])
ledger = Ledger(where / "ledger.sqlite")
run = ledger.begin_run(run_id="r", job="digits", script="/t.py", script_hash="", seed=1,
                       spec={}, now=0.0)
marks = open(where / "ledger-marks", "wb", buffering=0)
remedy = Remedy(kind=RemedyKind.RESTART, because="again")
for number in range(1, int(sys.argv[2]) + 1):
    with ledger.transaction():
        ledger.put_attempt(run.id, AttemptHistory(number=number), now=0.0)
    diagnosis = Diagnosis(cause=Cause.UNKNOWN, because=(), memory=None, advice="a" * 3000)
    incident = RecordIncident(attempt=number, diagnosis=diagnosis, remedy=remedy,
                              failed_step=number)
    with ledger.transaction():
        ledger.record_incident(run.id, incident, now=0.0)
        ledger.put_attempt(
            run.id, AttemptHistory(number=number, cause=Cause.UNKNOWN), now=0.0
        )
        ledger.set_state(run.id, state=JobState.WAITING, message=f"after {number}",
                         overrides=None, ended_at=None)
    marks.write(b".")
"""


@dataclass(frozen=True)
class KilledCall:
    """One call that changed a file."""

    kind: str
    name: str
    offset: int
    data: bytes


def calls_of(log: Path) -> Iterator[KilledCall]:
    """What the preloaded library wrote down."""
    content, at = log.read_bytes(), 0
    while at < len(content):
        kind, length, offset, size = HEAD.unpack_from(content, at)
        at += HEAD.size
        path, at = content[at : at + length].decode(), at + length
        yield KilledCall(
            kind.decode(), Path(path).name, offset, content[at : at + size]
        )
        at += size


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[KilledCall]:
    """Every call of a process that wrote incidents down."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None and os.environ.get("CI"):
        pytest.fail("a C compiler is needed")
    if compiler is None:
        pytest.skip("no C compiler")
    directory = tmp_path_factory.mktemp("calls")
    library, log = directory / "calls.so", directory / "log"
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"],
        check=True,
    )
    (directory / "state").mkdir()
    subprocess.run(
        [sys.executable, "-c", WORK, directory / "state", "25"],
        check=True,
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "CALLS_ABOUT": "state/ledger",
            "CALLS_LOG": str(log),
        },
    )
    found = list(calls_of(log))
    kinds = {call.kind for call in found}
    assert {"W", "S"} <= kinds, kinds
    assert len(found) > 200
    return found


def apply(files: dict[str, bytearray], call: KilledCall) -> None:
    """Do to ``files`` what ``call`` did."""
    if call.kind == "U":
        files.pop(call.name, None)
    elif call.kind in {"W", "T"}:
        content = files.setdefault(call.name, bytearray())
        end = call.offset + len(call.data)
        content.extend(bytes(max(end - len(content), 0)))
        if call.kind == "T":
            del content[call.offset :]
        else:
            content[call.offset : end] = call.data


def after(
    calls: list[KilledCall], count: int, draw: random.Random | None
) -> dict[str, bytes]:
    """The files after ``count`` calls; with ``draw`` power is lost there as well: of
    the writes that no sync followed some are on disk, in part, and some are not."""
    files: dict[str, bytearray] = {}
    for index, call in enumerate(calls[:count]):
        later = calls[index + 1 : count]
        durable = draw is None or any(
            other.kind == "S" and other.name == call.name for other in later
        )
        if durable or call.kind == "U" or (draw and draw.random() < 0.5):
            apply(files, call)
        elif draw and call.kind == "W" and draw.random() < 0.5:
            torn = call.data[: draw.randrange(len(call.data) + 1)]
            apply(files, KilledCall("W", call.name, call.offset, torn))
    return {name: bytes(content) for name, content in files.items()}


def check(where: Path, files: dict[str, bytes], *, acknowledged: int) -> None:
    """What is found there is whole, and has all that was acknowledged, once."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    for name, content in files.items():
        (where / name).write_bytes(content)
    path = where / "ledger.sqlite"
    with closing(Ledger(path)) as ledger:
        incidents = ledger.incidents()
        run = ledger.latest_run("digits")
        attempts = () if run is None else ledger.attempts(run.id)
    numbers = [incident.attempt for incident in incidents]
    assert numbers == list(range(1, len(numbers) + 1))
    assert acknowledged <= len(numbers) <= acknowledged + 1
    ended = [a for a in attempts if a.cause is not None]
    assert len(ended) == len(numbers)  # together, or not at all
    assert run is None or not numbers or run.message == f"after {len(numbers)}"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def acknowledged_in(calls: list[KilledCall]) -> int:
    """How many incidents the process believed to be written down."""
    return sum(call.name == "ledger-marks" for call in calls)


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
def test_cut_anywhere(calls: list[KilledCall], tmp_path: Path, *, power: bool) -> None:
    """At every place of the log that was drawn: nothing lost, doubled or corrupt."""
    draw = random.Random(20)  # noqa: S311  # places, not secrets
    places = sorted(draw.sample(range(len(calls) + 1), min(CUTS, len(calls) + 1)))
    for count in places:
        files = after(calls, count, draw if power else None)
        files.pop("ledger-marks", None)
        check(tmp_path / "disk", files, acknowledged=acknowledged_in(calls[:count]))


def test_a_ledger_without_syncs_would_be_caught(
    calls: list[KilledCall], tmp_path: Path
) -> None:
    """The tests above can fail: without syncs some cut loses or breaks something."""
    deaf = [call for call in calls if call.kind != "S"]
    draw = random.Random(7)  # noqa: S311
    with pytest.raises((AssertionError, LedgerError, sqlite3.Error)):
        _cut_often(deaf, tmp_path / "disk", draw)


def _cut_often(calls: list[KilledCall], where: Path, draw: random.Random) -> None:
    for count in range(40, len(calls), 5):
        files = after(calls, count, draw)
        files.pop("ledger-marks", None)
        check(where, files, acknowledged=acknowledged_in(calls[:count]))
