"""``make schedulers``: the examples for SkyPilot and Ray, before their own packages.

SkyPilot reads the file of its task, and tells which exit codes it recovers from. Ray runs
its own, for real: a cluster of this one machine, whose worker is killed in the middle of
training. Ray starts the task again, and the run ends with the bits of one that nobody
disturbed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED
from supervisor.wire.page import read_page
from tests.slurm.slow_training import SCRIPT
from tests.support.command import COMMAND, PATIENCE

DEPLOY = Path(__file__).parents[2] / "deploy"
PYTHON = Path(sys.prefix) / "schedulers" / "bin" / "python"
"""Of an environment of their own, which ``make schedulers`` makes."""
WORKER = "ray::train"
KILLED_STEP = 30
ASK_SKYPILOT = """
import json, sky, sys
task = sky.Task.from_yaml(sys.argv[1])
print(json.dumps([one.job_recovery for one in task.resources]))
"""


class UnexpectedSchedulerError(Exception):
    """What did not come out as promised."""


def skypilot(home: Path) -> str:
    """What SkyPilot understands of its task. Raises UnexpectedSchedulerError."""
    task = DEPLOY / "skypilot" / "train.yaml"
    done = subprocess.run(
        [PYTHON, "-c", ASK_SKYPILOT, task],
        env={**os.environ, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise UnexpectedSchedulerError(f"SkyPilot refuses the task: {done.stderr}")
    (recovery,) = json.loads(done.stdout.splitlines()[-1])
    if recovery["recover_on_exit_codes"] != [EXIT_DRAINED]:
        raise UnexpectedSchedulerError(f"it would recover otherwise: {recovery}")
    return f"the task is valid, and recovers from {EXIT_DRAINED}"


def undisturbed(directory: Path) -> str:
    """The bits of a run that nobody disturbs."""
    subprocess.run(
        [sys.executable, "train.py", "undisturbed"],
        cwd=directory,
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )
    return (directory / "undisturbed").read_text()


class RayJob:
    """The example, with a cluster that it brings up itself."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.state = directory, directory / "state"
        words = [
            *("--name=train", f"--state-dir={self.state}", "--snapshot-every=10steps"),
            *("train.py", str(directory / "result"), "0.1"),
        ]
        self._job = subprocess.Popen(
            [PYTHON, DEPLOY / "ray" / "train.py", "--gpus", "0", *words],
            cwd=directory,
            env={
                **os.environ,
                "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}",
                "RAY_USAGE_STATS_ENABLED": "0",
                "RAY_TMPDIR": str(directory),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until_step(self, step: int) -> None:
        """Wait until training has done ``step``."""
        ends = time.monotonic() + PATIENCE
        while self._step() < step:
            if self._job.poll() is not None or time.monotonic() > ends:
                self._job.kill()
                said, _ = self._job.communicate()
                raise UnexpectedSchedulerError(f"never came to step {step}: {said}")
            time.sleep(0.1)

    def _step(self) -> int:
        pages = map(read_page, self.state.glob("jobs/**/page"))
        return max((page.step or 0 for page in pages if page is not None), default=0)

    def kill_worker(self) -> None:
        """The process that runs the task, as a node's end would."""
        raylets = psutil.Process(self._job.pid).children(recursive=True)
        (worker,) = [one for one in raylets if WORKER in " ".join(one.cmdline())]
        worker.send_signal(signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Wait for its end: exit code and output."""
        said, _ = self._job.communicate(timeout=PATIENCE)
        return self._job.returncode, said


def ray(directory: Path) -> str:
    """What became of it. Raises UnexpectedSchedulerError."""
    (directory / "train.py").write_text(SCRIPT)
    bits = undisturbed(directory)
    job = RayJob(directory)
    job.until_step(KILLED_STEP)
    job.kill_worker()
    code, said = job.end()
    if code or "from the snapshot at step" not in said:
        raise UnexpectedSchedulerError(f"ended with {code}, or anew: {said}")
    if (directory / "result").read_text() != bits:
        raise UnexpectedSchedulerError(f"ended with other bits: {said}")
    return f"its worker killed at step {KILLED_STEP} or later: finished, bit-identical"


def main() -> int:
    """Both."""
    failed = 0
    for trial in (skypilot, ray):
        with tempfile.TemporaryDirectory(prefix="tw-schedulers-") as place:
            try:
                print(f"{trial.__name__}: {trial(Path(place))}", flush=True)
            except UnexpectedSchedulerError as error:
                print(f"{trial.__name__} FAILED: {error}", file=sys.stderr)
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
