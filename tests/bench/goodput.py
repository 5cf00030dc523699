"""Which part of the time is training, under a fault every minute.

``make bench-goodput``, or ``python -m tests.bench.goodput [--minutes 20] [--every 60] [MODEL]``

A shell loop with ``BackupAndRestore`` every 10 steps, and ours with all that makes a restart
short. They train in turns, a stretch each, in the order ABBA; in a stretch comes each fault
once: a kill, out of memory, a loss that becomes NaN, a hang. Productive is what the steps
take that had not been done before: their number times the median step of the shell loop,
between two that nothing came between. A stretch begins with its first step; a hang that
nobody sees ends with it.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import contextlib
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.recovery.bench_job import BenchJob, NothingCameError, benched_in
from tests.bench.recovery.contestants import BY_STEPS, OURS_AT_ITS_BEST
from tests.bench.recovery.paired_table import in_turn
from tests.bench.recovery.told_steps import new_steps, step_seconds

FAULTS = ("kill", "oom", "nan", "hang")


@dataclass
class GoodputRow:
    """What one contestant did."""

    name: str
    steps: list[int] = field(default_factory=list)
    """New ones, by stretch."""
    seconds: list[float] = field(default_factory=list)
    """How long each stretch was."""

    def goodput(self, step: float) -> float:
        """Productive time over all time, with steps of so many seconds."""
        return sum(self.steps) * step / sum(self.seconds)


def table(rows: list[GoodputRow], step: float | None) -> list[str]:
    """As printed; ``step``: seconds of an undisturbed one, None: there was none."""
    if step is None or not all(row.seconds for row in rows):
        return ["nothing was measured"]
    told = [
        f"{row.name:24} {row.goodput(step):8.2f} {sum(row.steps):10} {sum(row.seconds):8.0f}"
        for row in rows
    ]
    head = f"{'':24} {'goodput':>8} {'new steps':>10} {'seconds':>8}"
    return [f"a step takes {1000 * step:.0f} ms", head, *told]


def stretch(job: BenchJob, row: GoodputRow, *, every: float) -> None:
    """Train under each fault once, and count."""
    try:
        job.start()
        job.until_trained(1)
        began = time.monotonic()
        for number, fault in enumerate(FAULTS, 1):
            time.sleep(max(began + (number - 0.5) * every - time.monotonic(), 0.0))
            disturb(job, fault)
        time.sleep(max(began + len(FAULTS) * every - time.monotonic(), 0.0))
        until = time.monotonic()
    finally:
        job.stop()
    row.steps.append(new_steps(job.told(), since=began, until=until))
    row.seconds.append(until - began)


def disturb(job: BenchJob, fault: str) -> None:
    """One that finds nothing that trains finds nobody to kill, or waits for a step."""
    if fault == "kill":
        with contextlib.suppress(ProcessLookupError):
            job.kill()
    else:
        job.ask_for(fault)


def measured(
    place: Path, model: str, *, stretches: int, every: float, patience: float
) -> tuple[list[GoodputRow], float | None]:
    """All stretches, and what a step of the shell loop takes."""
    contestants = (BY_STEPS, OURS_AT_ITS_BEST)
    rows = {one: GoodputRow(one.name) for one in contestants}
    jobs = {
        one: BenchJob(place / f"{number}", one, model, patience=patience)
        for number, one in enumerate(contestants)
    }
    for number in range(stretches):
        for one in in_turn(contestants, number):
            try:
                stretch(jobs[one], rows[one], every=every)
            except NothingCameError as error:
                sys.exit(f"{one.name}: {error}")
            row = rows[one]
            print(f"  {row.name}: {row.steps[-1]} new steps", file=sys.stderr)
    return list(rows.values()), step_seconds(jobs[BY_STEPS].told())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each")
    parser.add_argument("--every", type=float, default=60.0, help="seconds a fault")
    parser.add_argument(
        "--keep", type=Path, help="a new directory for all that they did"
    )
    parser.add_argument("--patience", type=float, default=900.0, help="seconds")
    parser.add_argument("model", nargs="?", default="small")
    asked = parser.parse_args()
    stretches = max(round(asked.minutes * 60 / (asked.every * len(FAULTS))), 1)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    with benched_in(asked.keep) as place:
        rows, step = measured(
            *[place, asked.model],
            stretches=stretches,
            every=asked.every,
            patience=asked.patience,
        )
    print("\n".join(table(rows, step)))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
