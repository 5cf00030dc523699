"""How good the planned slice is: against the largest that fits, halving and x0.9.

``python -m tests.bench.planner [--quick] [--models cnn,mlp,…] [--onednn 0|1]``

Every trial is a training in a process of its own under TensorFlow's CPU allocator with
a limit (see planner_trial.py). For each model, limit and compilation: the whole batch
is tried (it must fail, as it does in a first attempt), then the planner goes to work,
and each restart that it needs is counted. ``best`` is the largest slice that finished,
found by bisection to 2 %, every size in a process of its own. ``--quick`` only tries
whether 1.1 times the planned slice fails (``<`` that) or fits (``>``), and takes it as
given that the whole batch fails. What halving and x0.9
would end with, and their restarts, follow from ``best``.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from supervisor.core.batching import Observation, next_plan
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
CLOSE = 0.02


@dataclass(frozen=True)
class Case:
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

    def fits(self, plan: str) -> bool:
        """Whether that training came to its end."""
        return self.trial(plan)[-1]["kind"] == "finished"


@dataclass(frozen=True)
class Planned:
    """What the planner came to."""

    size: int
    restarts: int
    ok: bool


def planned(case: Case, batch: int) -> Planned:
    """Let the planner restart until a training finishes."""
    limit = case.limit_mib * 2**20
    seen = [_observed(batch, limit, case)]
    for restart in range(1, MOST_RESTARTS + 1):
        plan = next_plan(seen, batch=batch)
        if plan is None:
            break
        events = case.trial("calibrate" if plan.calibrate else str(plan.slice_size))
        sizes = [event["size"] for event in events if event["kind"] == "microbatch"]
        size = int(str(sizes[-1]))
        if events[-1]["kind"] == "finished":
            return Planned(size, restart, ok=True)
        seen.append(_observed(size, limit, case))
    return Planned(seen[-1].slice_size, MOST_RESTARTS, ok=False)


def _observed(size: int, limit: int, case: Case) -> Observation:
    return Observation(
        slice_size=size,
        peak_bytes=None,
        failed=True,
        limit_bytes=limit,
        jit=case.jit == "1",
    )


def best(case: Case, *, fits: int, fails: int) -> int:
    """The largest slice that fits, by bisection between two known ones."""
    while fails - fits > max(1, CLOSE * fits):
        middle = (fits + fails) // 2
        if case.fits(str(middle)):
            fits = middle
        else:
            fails = middle
    return fits


def by_factor(factor: float, *, batch: int, largest: int) -> tuple[int, int]:
    """The slice that ``size * factor`` ends with, and the restarts until then."""
    size, restarts = batch, 0
    while size > largest:
        size, restarts = max(1, int(size * factor)), restarts + 1
    return size, restarts


def row(case: Case, *, quick: bool) -> str:
    """One line of the table."""
    head = f"{case.model:12} {case.limit_mib:5} {case.jit:>3} {case.onednn:>6}"
    batch = BATCHES[case.model]
    if not quick and case.fits("whole"):
        return f"{head} {batch:6}  the whole batch fits"
    plan = planned(case, batch)
    if quick:
        over = min(batch, int(plan.size * 1.1) + 1)
        fits = case.fits(str(over))
        return f"{head} {batch:6} {plan.size:8} {plan.restarts:9} {'>' if fits else '<'}{over:5}"
    largest = best(case, fits=plan.size if plan.ok else 1, fails=batch)
    half, nine = (
        "{:5} in {:2}".format(*by_factor(factor, batch=batch, largest=largest))
        for factor in (0.5, 0.9)
    )
    part = plan.size / largest
    return (
        f"{head} {batch:6} {plan.size:8} {plan.restarts:9} {largest:6} {part:6.2f}"
        f"   {half}   {nine}"
    )


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--models", default="cnn,mlp,transformer")
    parser.add_argument("--jit", default="0,1")
    parser.add_argument("--onednn", default="1")
    given = parser.parse_args()
    print(
        "model        limit jit onednn  batch  planned  restarts   best   part   halving      x0.9"
    )
    for (model, jit), limits in LIMITS_MIB.items():
        if model in given.models.split(",") and jit in given.jit.split(","):
            for limit in limits:
                case = Case(model, limit, jit, given.onednn)
                print(row(case, quick=given.quick), flush=True)


if __name__ == "__main__":
    main()
