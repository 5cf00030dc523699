"""``make certify-oom``: ordinary scripts without a seed run out of memory and are killed.

Each script of the ``ordinary_*`` rows is run by the command itself, with a limit on its
memory that its batch does not fit in, and kills itself at three places. It has to finish,
with each failure named, no step missing or done twice, and as many epochs as without us.
Slices round otherwise than a whole batch, so bits are not compared: ``make certify`` does.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.certify import ledger
from tests.certify.table import ORDINARY, CertifyRow
from tests.support.command import Trainwarden
from tests.support.script_packages import SCRIPT_PACKAGES

SCRIPT = Path(__file__).parent / "scripts" / "row.py"
LIMIT = "48MiB"
KILLED_AT = (0.3, 0.55, 0.8)
"""Of its steps."""


@dataclass
class OomOutcome:
    """What came of a script."""

    row: CertifyRow
    problems: list[str] = field(default_factory=list[str])
    incidents: list[str] = field(default_factory=list[str])
    slices: int = 1
    seconds: float = 0.0


def environment_for(**more: str) -> dict[str, str]:
    """Each sample takes megabytes; what the scripts import is found."""
    path = str(SCRIPT_PACKAGES)
    return {**os.environ, "HEAVY": "1", "PYTHONPATH": path, **more}


def undisturbed(
    row: CertifyRow, directory: Path
) -> tuple[list[str], list[ledger.Line]]:
    """The places that it passes and its ledger, by plain Python."""
    directory.mkdir()
    trail = directory / "trail"
    subprocess.run(
        [sys.executable, str(SCRIPT), row.name],
        cwd=directory,
        env=environment_for(TRAIL=str(trail)),
        check=True,
        capture_output=True,
    )
    return trail.read_text().split(), ledger.read(directory / "ledger.jsonl")


def places_to_die(trail: Sequence[str]) -> list[str]:
    """Three steps, spread over its life."""
    steps = [place for place in trail if place.startswith("step:")]
    return [steps[int(share * len(steps))] for share in KILLED_AT]


def tried(row: CertifyRow, base: Path) -> OomOutcome:
    """Run one, and look at what it left."""
    outcome, began = OomOutcome(row), time.monotonic()
    base.mkdir()
    trail, whole = undisturbed(row, base / "plain")
    killed_at = places_to_die(trail)
    run = base / "run"
    run.mkdir()
    command = Trainwarden(run, base / "state")
    done = subprocess.run(
        command.command(
            *("run", "--name", "row", "--cpu-memory", LIMIT),
            *("--snapshot-every", "3steps", SCRIPT, row.name),
        ),
        cwd=run,
        # Elsewhere: a file in the working directory is put back with the snapshot.
        env=environment_for(DIE_ONCE=" ".join(killed_at), DIED=str(base / "died")),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    outcome.seconds = time.monotonic() - began
    if done.returncode:
        outcome.problems.append(f"ended with {done.returncode}: {done.stderr[-2500:]}")
        return outcome
    outcome.incidents = [one["cause"] for one in command.json("incidents", "row")]
    status = command.status("row") or {}
    outcome.slices = (status.get("microbatch") or {}).get("slices", 1)
    lines = ledger.read(run / "ledger.jsonl")
    outcome.problems += _of_incidents(outcome, reached(killed_at, lines))
    outcome.problems += _of_steps(row, run, lines, whole)
    return outcome


def reached(places: Sequence[str], lines: list[ledger.Line]) -> list[str]:
    """Those of ``places`` whose epoch the run had: what stops early by its validation may
    stop earlier than the run without us, whose numbers are others."""
    epochs = {(fit, epoch) for _, fit, epoch in ledger.by_epoch(lines)}
    return [one for one in places if _epoch(one) in epochs]


def _epoch(place: str) -> tuple[int, int]:
    _, fit, epoch, _ = place.split(":")
    return int(fit), int(epoch)


def _of_incidents(outcome: OomOutcome, killed_at: list[str]) -> Iterator[str]:
    counted = Counter(outcome.incidents)
    if not counted["device_oom"]:
        yield "it never ran out of memory"
    elif outcome.slices < 2:
        yield "it did not go on in slices"
    if not killed_at or counted["preempted"] != len(killed_at):
        yield f"{len(killed_at)} kills, but the incidents are {outcome.incidents}"
    strange = set(counted) - {"device_oom", "preempted"}
    if strange:
        yield f"other incidents: {', '.join(sorted(strange))}"


def _of_steps(
    row: CertifyRow, run: Path, lines: list[ledger.Line], whole: list[ledger.Line]
) -> list[str]:
    result: dict[str, Any] = json.loads((run / "result.json").read_text())
    found = ledger.inconsistencies(row, lines, seen=result["seen"])
    epochs = ledger.by_epoch(ledger.surviving(lines))
    if not row.rewinds and set(epochs) != set(ledger.by_epoch(whole)):
        found.append(f"other epochs than undisturbed: {sorted(epochs)}")
    return found


def line(outcome: OomOutcome) -> str:
    """One row of the table, with what is wrong below it."""
    state = "FAILS" if outcome.problems else "HOLDS"
    return "\n".join(
        [
            (
                f"{state}  {outcome.row.name:30} {outcome.slices:2} slices "
                f"{outcome.seconds:5.0f} s  {', '.join(outcome.incidents)}"
            ),
            *(f"       PROBLEM {problem}" for problem in outcome.problems),
        ]
    )


def main() -> int:
    """All of them, or those named; 0 if all hold."""
    parser = argparse.ArgumentParser(description=str(__doc__))
    parser.add_argument("rows", nargs="*", metavar="ROW")
    names = parser.parse_args().rows
    rows = [row for row in ORDINARY if not names or row.name in names]
    bad = 0
    with tempfile.TemporaryDirectory(prefix="certify-oom-") as base:
        for row in rows:
            outcome = tried(row, Path(base) / row.name)
            bad += bool(outcome.problems)
            print(line(outcome), flush=True)
    print(f"{len(rows) - bad} of {len(rows)} scripts finished as promised")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
