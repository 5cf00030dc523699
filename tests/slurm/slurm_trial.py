"""``make slurm``: what a real Slurm does to jobs, and how they end all the same.

Each scenario submits ``deploy/slurm/train.sbatch``, lets Slurm do its worst, and compares
the states that ``sacct`` tells and the bits of the weights with those of a run that nobody
disturbed.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.wire.page import read_page
from tests.slurm.slow_training import SCRIPT
from tests.slurm.slurm_cluster import (
    KILL_WAIT,
    PATIENCE,
    SlurmCluster,
    SlurmError,
    missing,
    slurm_in,
)
from tests.support.command import COMMAND, Trainwarden

SBATCH = Path(__file__).parents[2] / "deploy" / "slurm" / "train.sbatch"
HELD_STEP = 30


class UnexpectedSlurmError(Exception):
    """What did not come out as promised."""


@dataclass
class SlurmTrial:
    """A cluster, a place for jobs, and what their bits should be."""

    cluster: SlurmCluster
    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir()
        (self.directory / "train.py").write_text(SCRIPT)
        (self.directory / "job.toml").write_text(
            'script = "train.py"\n[drain]\ngrace = "55s"\n'
            '[snapshots]\nmemory_every = "5steps"\n'
        )

    def undisturbed(self) -> str:
        """The bits of a run that nobody disturbs, and Slurm knows nothing of."""
        result = self.directory / "undisturbed"
        subprocess.run(
            [sys.executable, "train.py", str(result)],
            cwd=self.directory,
            check=True,
            timeout=PATIENCE,
            capture_output=True,
        )
        return result.read_text()

    def submit(
        self,
        name: str,
        *options: str,
        seconds: float = 0.1,
        held: int | None = None,
    ) -> str:
        """A job of this name; ``held``: the step that waits for ``release``."""
        if held is not None:
            self._hold(name).touch()
        words = [str(self.directory / name), str(seconds), str(held or -1)]
        return self.cluster.submit(
            f"--job-name={name}",
            f"--export=ALL,TRAINWARDEN={COMMAND}",
            *options,
            str(SBATCH),
            "--spec",
            "job.toml",
            "train.py",
            *words,
            directory=self.directory,
        )

    def _hold(self, name: str) -> Path:
        return self.directory / f"{name}.hold"

    def release(self, name: str) -> None:
        """Let the held step end."""
        self._hold(name).unlink()

    def status_of(self, name: str) -> dict[str, Any]:
        """How the run stands, by ``trainwarden status``."""
        state = self.directory / ".trainwarden" / name
        found = Trainwarden(self.directory, state).status(name)
        assert found is not None
        return found

    def until_step(self, name: str, step: int) -> int:
        """Wait until training has done ``step``; what it has done."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            done = max(
                (
                    page.step
                    for path in self.directory.glob(f".trainwarden/{name}/**/page")
                    if (page := read_page(path)) is not None and page.step is not None
                ),
                default=0,
            )
            if done >= step:
                return done
            time.sleep(0.05)
        message = f"{name} never came to step {step}: {self.log_of(name)}"
        raise SlurmError(message)

    def log_of(self, name: str) -> str:
        """What a job and its earlier lives wrote."""
        return "".join(
            path.read_text() for path in self.directory.glob(f"{name}-*.log")
        )

    def expect(self, name: str, job: str, states: list[str], bits: str) -> None:
        """The states in ``sacct``, and the result. Raises UnexpectedError."""
        ends = time.monotonic() + 20
        while (found := self.cluster.accounted(job)) != states:
            if time.monotonic() > ends:
                told = f"sacct tells {found}, not {states}: {self.log_of(name)}"
                raise UnexpectedSlurmError(told)
            time.sleep(0.5)
        if self.status_of(name)["state"] != "finished":
            raise UnexpectedSlurmError(f"{name} is not finished: {self.log_of(name)}")
        if (self.directory / name).read_text() != bits:
            raise UnexpectedSlurmError(f"{name} ends with other bits than undisturbed")
        if "ending at once" in self.log_of(name):
            raise UnexpectedSlurmError(f"{name} was ended at once: {self.log_of(name)}")


def requeued(trial: SlurmTrial, bits: str) -> str:
    """``scontrol requeue``, after two more SIGTERMs to all its processes, in a step that
    lasts on: all of them are one request, and the step's work is saved."""
    job = trial.submit("requeued", held=HELD_STEP, seconds=0.02)
    trial.until_step("requeued", HELD_STEP)
    for pause in (0.5, 3.0):
        trial.cluster.call("scancel", "--batch", "--signal=TERM", job)
        time.sleep(pause)
    trial.cluster.call("scontrol", "requeue", job)
    time.sleep(2.0)
    trial.release("requeued")
    trial.cluster.until_requeued(job)
    trial.cluster.ended(job)
    trial.expect("requeued", job, ["PENDING", "COMPLETED"], bits)
    log = trial.log_of("requeued")
    saved = f"drained at step {HELD_STEP + 1}"
    if saved not in log or log.count(" SIGTERM: saving") != 1:
        raise UnexpectedSlurmError(f"the held step was not saved: {log}")
    return f"{saved}, after 3 SIGTERMs and more"


def preempted(trial: SlurmTrial, bits: str) -> str:
    """A job of a partition of higher priority needs the node."""
    job = trial.submit("preempted", seconds=0.5)
    trial.until_step("preempted", 10)
    urgent = trial.cluster.submit(
        "--partition=high",
        "--ntasks=2",
        "--output=/dev/null",
        "--wrap=sleep 2",
        directory=trial.directory,
    )
    trial.cluster.until_requeued(job)
    trial.cluster.ended(urgent)
    trial.cluster.ended(job)
    trial.expect("preempted", job, ["PREEMPTED", "COMPLETED"], bits)
    return _drained_at(trial.log_of("preempted"))


def time_limit(trial: SlurmTrial, bits: str) -> str:
    """Two minutes are not enough: the signal comes before they are over, and exit code 75
    requeues. (Its first end is ``FAILED`` in Slurm's completion log, as for every code.)"""
    job = trial.submit("time-limit", "--time=2", "--signal=B:TERM@30", seconds=1.5)
    trial.cluster.until_requeued(job)
    trial.cluster.call("scontrol", "update", f"jobid={job}", "timelimit=30")
    trial.cluster.ended(job)
    trial.expect("time-limit", job, ["FAILED", "COMPLETED"], bits)
    return _drained_at(trial.log_of("time-limit"))


def cancelled(trial: SlurmTrial, bits: str) -> str:
    """``scancel`` saves and is final, exit code 75 or not; who submits again goes on."""
    first = trial.submit("cancelled")
    trial.until_step("cancelled", 10)
    trial.cluster.call("scancel", first)
    if trial.cluster.ended(first) != "CANCELLED":
        raise UnexpectedSlurmError(f"ended as {trial.cluster.job(first)}")
    _until(lambda: trial.status_of("cancelled")["state"] == "drained")
    second = trial.submit("cancelled")
    trial.cluster.ended(second)
    trial.expect("cancelled", second, ["COMPLETED"], bits)
    if trial.cluster.accounted(first) != ["CANCELLED"]:
        raise UnexpectedSlurmError(f"sacct: {trial.cluster.accounted(first)}")
    return _drained_at(trial.log_of("cancelled"))


def node_lost(trial: SlurmTrial, bits: str) -> str:
    """slurmd is killed: the job goes on unseen until its node is back, and is ended there."""
    job = trial.submit("node-lost", seconds=0.5)
    trial.until_step("node-lost", 10)
    trial.cluster.lose_node()
    trial.cluster.until(job, lambda told: told["Restarts"] == "1")
    trial.cluster.start_node()
    trial.cluster.await_node()
    trial.cluster.until_requeued(job)
    trial.cluster.ended(job)
    trial.expect("node-lost", job, ["NODE_FAIL", "COMPLETED"], bits)
    return f"attempts: {trial.status_of('node-lost')['attempt']}"


def array(trial: SlurmTrial, bits: str) -> str:
    """Ten runs at once, each with a name and a ledger of its own."""
    job = trial.submit("array", "--array=0-9", seconds=0.0)
    for task in range(10):
        one = f"{job}_{task}"
        ended = trial.cluster.ended(one)
        number = trial.cluster.job(one)["JobId"]
        if ended != "COMPLETED" or trial.cluster.accounted(number) != ["COMPLETED"]:
            raise UnexpectedSlurmError(f"task {task}: {ended} {trial.log_of('array')}")
        if trial.status_of(f"array-{task}")["state"] != "finished":
            raise UnexpectedSlurmError(f"task {task} is not finished")
    if (trial.directory / "array").read_text() != bits:
        raise UnexpectedSlurmError("the array ends with other bits than undisturbed")
    return "10 tasks completed"


def checked(trial: SlurmTrial, _bits: str) -> str:
    """``trainwarden check`` in a job: the grace of the spec fits in, the usual does not."""
    found: list[list[str]] = []
    for spec in (" --spec job.toml", ""):
        job = trial.cluster.submit(
            "--requeue",
            "--output=checked.json",
            f"--wrap={COMMAND} check --json --state-dir .trainwarden{spec}; true",
            directory=trial.directory,
        )
        trial.cluster.ended(job)
        told = json.loads((trial.directory / "checked.json").read_text())
        found.append([one["level"] for one in told if one["about"].startswith("Slurm")])
    if found != [["OK"] * 3, ["warning", "warning", "OK"]]:
        raise UnexpectedSlurmError(f"check tells {found}")
    return "KillWait and GraceTime told, RequeueExit found"


SCENARIOS: tuple[Callable[[SlurmTrial, str], str], ...] = (
    requeued,
    preempted,
    time_limit,
    cancelled,
    node_lost,
    array,
    checked,
)


def _drained_at(log: str) -> str:
    found = [line for line in log.splitlines() if "drained at step" in line]
    if not found:
        raise UnexpectedSlurmError(f"it was not drained: {log}")
    return found[0].strip()


def _until(wanted: Callable[[], bool]) -> None:
    ends = time.monotonic() + KILL_WAIT + 10
    while not wanted():
        if time.monotonic() > ends:
            raise UnexpectedSlurmError("it never came")
        time.sleep(0.2)


def main() -> int:
    """All scenarios, or those that are named."""
    reason = missing()
    if reason is not None:
        print(f"slurm: {reason}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = set(sys.argv[1:]) or {one.__name__ for one in SCENARIOS}
    root = Path(tempfile.mkdtemp(prefix="tw-slurm-"))
    failed = 0
    try:
        with slurm_in(root / "s") as cluster:
            trial = SlurmTrial(cluster, root / "jobs")
            bits = trial.undisturbed()
            for scenario in SCENARIOS:
                if scenario.__name__ not in wanted:
                    continue
                began = time.monotonic()
                try:
                    told = f"ok      {scenario(trial, bits)}"
                except (UnexpectedSlurmError, SlurmError) as error:
                    told = f"FAILED  {error}"
                    failed += 1
                seconds = time.monotonic() - began
                print(f"{scenario.__name__:12} {seconds:4.0f} s  {told}", flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
