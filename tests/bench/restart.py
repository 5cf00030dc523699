"""What a crash costs: from the fault to the first step that was not done before.

``make bench-restart``, or ``python -m tests.bench.restart [--kills 10] [--only NAME,…] [MODEL...]``

Each model is compiled by XLA, and pauses after a step for what a larger one would take. A
round is a kill of each contestant (``recovery/contestants.py``), after as many steps for
all, which fall anywhere in an epoch; the order is ABBA, so that a machine that is busy for a
while is so for all. In place has a loss that becomes NaN instead of a kill. What ours keeps
(compilations) is there from the first round's beginning on. Seconds, steps done again and
ratios are medians, with quartiles; ratios are of rounds. Below, where the seconds of ours
went, and whether targets are met.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.recovery.bench_job import BenchJob, NothingCameError, benched_in
from tests.bench.recovery.contestants import BASES, CONTESTANTS, Contestant
from tests.bench.recovery.paired_table import (
    RestartRow,
    in_turn,
    phase_line,
    steps_before,
    table_line,
    target_line,
)
from tests.bench.recovery.restart_phases import recovered

MODELS = ("small", "mobilenet", "transformer")
EPOCH = 16
"""Steps of the script's epochs."""
LARGE = {"ours, cache": 0.5, "ours, standby": 0.35, "ours, in place": 0.05}
TARGETS = {
    "small": {"ours, standby": 0.25, "ours, in place": 0.05},
    "mobilenet": LARGE,
    "transformer": LARGE,
}
"""At most so much of the shell loops."""


def one_round(job: BenchJob, row: RestartRow, number: int) -> None:
    """Start it, disturb it, and note what that cost."""
    try:
        job.start()
        job.until_trained(steps_before(number, epoch=EPOCH))
        if "standby = true" in (job.contestant.spec or ""):
            job.until_standby()
        fault = job.commit(job.contestant.fault)
        new = job.until_new_step(fault)
    finally:
        job.stop()
    row.seconds[number] = new.seconds
    row.again.append(new.again)
    if job.contestant.spec is not None:
        clocks = time.time() - time.monotonic()
        found = recovered(job.state, since=fault.at, new_step=new.at, clocks=clocks)
        row.phases.append(found)


def measured(
    place: Path,
    model: str,
    contestants: Sequence[Contestant],
    *,
    kills: int,
    patience: float,
) -> list[RestartRow]:
    """All rounds of a model. Who fails has no more of them, and says why."""
    rows = {
        one: RestartRow(one.name, why_not=one.missing() or "") for one in contestants
    }
    jobs = {
        one: BenchJob(place / f"{number}", one, model, patience=patience)
        for number, one in enumerate(contestants)
    }
    for number in range(kills):
        for one in in_turn(contestants, number):
            row = rows[one]
            if row.why_not:
                continue
            try:
                one_round(jobs[one], row, number)
            except NothingCameError as error:
                row.why_not = str(error)
            told = row.seconds.get(number, row.why_not)
            print(f"  {model} {number + 1} {one.name}: {told}", file=sys.stderr)
    return list(rows.values())


def report(model: str, rows: Sequence[RestartRow]) -> None:
    """Print what there is to say of a model."""
    bases = [row for row in rows if row.name in BASES]
    print(
        f"\n{model}: fault to the first new step, steps again, of {', of '.join(BASES)}"
    )
    targets = TARGETS[model]
    lines = [table_line(row, bases) for row in rows]
    lines += ["phases, seconds:"]
    lines += [line for row in rows if (line := phase_line(row))]
    lines += ["targets:"]
    for row in rows:
        if row.name in targets:
            lines += [target_line(row, bases, targets[row.name]) or ""]
    print("\n".join(line for line in lines if line), flush=True)


def chosen(only: str | None) -> list[Contestant]:
    """The contestants whose name has one of these words; None: all."""
    if only is None:
        return list(CONTESTANTS)
    words = only.split(",")
    return [one for one in CONTESTANTS if any(word in one.name for word in words)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each")
    parser.add_argument("--only", help="parts of contestants' names, with commas")
    parser.add_argument(
        "--keep", type=Path, help="a new directory for all that they did"
    )
    parser.add_argument("--patience", type=float, default=900.0, help="seconds")
    parser.add_argument("models", nargs="*", default=MODELS)
    asked = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    with benched_in(asked.keep) as place:
        for model in asked.models:
            rows = measured(
                *[place / model, model, chosen(asked.only)],
                kills=asked.kills,
                patience=asked.patience,
            )
            report(model, rows)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
