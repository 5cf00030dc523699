"""How good the planned slice is: against the largest that fits, halving and x0.9.

``python -m tests.bench.planner [--quick] [--models cnn,mlp,…] [--jit 0,1]
[--onednn 0|1]``

Every trial is a training in a process of its own under TensorFlow's CPU allocator with
a limit (see planner_trial.py). For each model, limit and compilation: the whole batch
is tried (it must fail, as it does in a first attempt), then the planner goes to work,
and each restart that it needs is counted.

Whether a size near the limit fits is partly luck: how many batches are prefetched, and
which operations run at once, differs from run to run. ``best`` is therefore the largest
slice that finishes in 3 of 3 trainings, one failure being enough against it. It is
searched upwards from the planned one (downwards where that one does not always finish:
``part`` is then above 1) and found to 2 %. What halving and x0.9 would end with, and
their restarts, follow from ``best``.

``--quick`` only tries the smallest size that shares the batch out evenly and is more
than a tenth above the planned one. If that fails in one of 3 trainings, or is the whole
batch, the planned one is within a tenth of the best (``<`` that size; else ``>``, with
the least part of the limit that one of the three had in use at its peak: near 1, its
operations wait for each other's memory). It takes it as given that the whole batch fails.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from supervisor.core.remediation.microbatch_planner import Observation, next_plan
from supervisor.wire.slices import balanced, count
from tests.bench.planner_trial import BATCHES

LIMITS_MIB = {
    ("cnn", "0"): (160, 240, 340),
    ("cnn", "1"): (240, 340, 440),
    ("lstm", "0"): (60, 90, 120),
    ("lstm", "1"): (60, 90, 120),
    ("transformer", "0"): (80, 120, 160),
    ("transformer", "1"): (80, 120, 160),
    ("mlp", "0"): (140, 160, 180),
    ("mlp", "1"): (140, 160, 180),
}
ROOT = Path(__file__).resolve().parents[2]
MOST_RESTARTS = 5
TRIES = 3
CLOSE = 0.02
WITHIN = 0.9
"""Of the largest that fits: what the planner has to reach."""

HEAD = (
    "model        limit jit onednn  batch  planned  restarts   best   part  slices"
    "   halving      x0.9"
)


@dataclass(frozen=True)
class PlannerCase:
    """One row of the table."""

    model: str
    limit_mib: int
    jit: str
    onednn: str

    def trial(self, plan: str) -> list[dict[str, object]]:
        """Train in a process of its own; what it reported, in order."""
        command = [
            sys.executable,
            "-m",
            "tests.bench.planner_trial",
            self.model,
            str(self.limit_mib),
            self.jit,
            plan,
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": self.onednn},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=600,
        )
        lines = done.stdout.decode().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def used(self, plan: str) -> float | None:
        """The part of the limit that was in use in that training; None: it failed."""
        events = self.trial(plan)
        if not events or events[-1]["kind"] != "finished":
            return None
        return int(str(events[-1]["peak"])) / (self.limit_mib * 2**20)

    def fits(self, plan: str) -> bool:
        """Whether that training came to its end."""
        return self.used(plan) is not None

    def always_fits(self, size: int, *, tries: int = TRIES) -> bool:
        """Whether ``tries`` trainings with that slice came to their ends."""
        return self.always_used(size, tries=tries) is not None

    def always_used(self, size: int, *, tries: int = TRIES) -> float | None:
        """The least part of the limit that one of ``tries`` used; None: one failed."""
        least = 1.0
        for _ in range(tries):
            used = self.used(str(size))
            if used is None:
                return None
            least = min(least, used)
        return least


@dataclass(frozen=True)
class Planned:
    """What the planner came to."""

    size: int
    restarts: int
    ok: bool


def planned(case: PlannerCase, batch: int) -> Planned:
    """Let the planner restart until a training finishes."""
    limit = case.limit_mib * 2**20
    seen = [_observed(batch, limit, case)]
    for restart in range(1, MOST_RESTARTS + 1):
        plan = next_plan(seen, batch=batch)
        if plan is None:
            break
        events = case.trial("calibrate" if plan.calibrate else str(plan.slice_size))
        sizes = [event["size"] for event in events if event["kind"] == "microbatch"]
        size = int(str(sizes[-1])) if sizes else 1
        if events and events[-1]["kind"] == "finished":
            return Planned(size, restart, ok=True)
        seen.append(_observed(size, limit, case))
    return Planned(seen[-1].slice_size, MOST_RESTARTS, ok=False)


def _observed(size: int, limit: int, case: PlannerCase) -> Observation:
    return Observation(
        slice_size=size,
        peak_bytes=None,
        failed=True,
        limit_bytes=limit,
        jit=case.jit == "1",
    )


def above(size: int) -> int:
    """The smallest slice of which ``size`` is no more than ``WITHIN``."""
    return math.ceil(size / WITHIN)


def next_even(size: int, *, batch: int) -> int:
    """The smallest size of ``above`` or more that shares the batch out evenly."""
    return math.ceil(batch / max(1, math.ceil(batch / (above(size) - 1)) - 1))


def best(case: PlannerCase, *, near: int, batch: int) -> int:
    """The largest slice that always fits, searched from ``near``; 0: none does."""
    fits, fails = 0, batch
    size = min(near, batch - 1)
    while fits < size < fails:
        if case.always_fits(size):
            fits, size = size, above(size)
        else:
            fails, size = size, int(size * WITHIN)
        if fits and fails < batch:
            break
    while fails - fits > max(1, CLOSE * fits):
        middle = (fits + fails) // 2
        if case.always_fits(middle):
            fits = middle
        else:
            fails = middle
    return fits


def by_factor(factor: float, *, batch: int, largest: int) -> tuple[int, int]:
    """The slice that ``size * factor`` ends with, and the restarts until then."""
    size, restarts = batch, 0
    while size > max(largest, 1):
        size, restarts = max(1, int(size * factor)), restarts + 1
    return size, restarts


def row(case: PlannerCase, *, quick: bool) -> str:
    """One line of the table."""
    head = f"{case.model:12} {case.limit_mib:5} {case.jit:>3} {case.onednn:>6}"
    batch = BATCHES[case.model]
    if not quick and case.fits("whole"):
        return f"{head} {batch:6}  the whole batch fits"
    plan = planned(case, batch)
    start = f"{head} {batch:6} {plan.size:8} {plan.restarts:9}"
    if quick:
        over = next_even(plan.size, batch=batch)
        used = None if over >= batch else case.always_used(over)
        met = plan.ok and plan.restarts == 1 and used is None
        much = "" if used is None else f" uses {used:.3f} of the limit"
        sign = "<" if used is None else ">"
        return f"{start} {sign}{over:5}{'' if met else '   missed'}{much}"
    largest = best(case, near=plan.size, batch=batch)
    half, nine = (
        "{:5} in {:2}".format(*by_factor(factor, batch=batch, largest=largest))
        for factor in (0.5, 0.9)
    )
    part = plan.size / balanced(batch=batch, size=largest) if largest else math.inf
    slices = f"{count(batch=batch, size=plan.size):3}/{count(batch=batch, size=max(1, largest)):<3}"
    met = plan.ok and plan.restarts == 1 and WITHIN <= part <= 1
    tail = "" if met else "   missed"
    return f"{start} {largest:6} {part:6.2f} {slices}   {half}   {nine}{tail}"


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--models", default="cnn,mlp,transformer")
    parser.add_argument("--jit", default="0,1")
    parser.add_argument("--onednn", default="1")
    given = parser.parse_args()
    print(HEAD, flush=True)
    for (model, jit), limits in LIMITS_MIB.items():
        if model in given.models.split(",") and jit in given.jit.split(","):
            for limit in limits:
                case = PlannerCase(model, limit, jit, given.onednn)
                print(row(case, quick=given.quick), flush=True)


if __name__ == "__main__":
    main()
