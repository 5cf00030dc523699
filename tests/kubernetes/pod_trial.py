"""``make container``: a run in containers that are killed and evicted, each time in a fresh
one with the same volume: it ends with the bits of a run that nobody disturbed.

There is no container engine here, and no image. The kernel's part of a container is real:
namespaces of mounts and processes, a root that is read-only, no capabilities, an empty
``/dev/shm`` each time (``pod.sh``). The arguments are those of ``deploy/kubernetes/job.yaml``.
Needs root.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from supervisor.wire.page import read_page
from tests.slurm.slow_training import SCRIPT, STEPS
from tests.support.command import COMMAND, PATIENCE

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes" / "job.yaml"
POD = Path(__file__).with_name("pod.sh")
KILLED_STEP, EVICTED_STEP = 25, 50


class UnexpectedPodError(Exception):
    """What did not come out as promised."""


def manifests() -> list[dict[str, Any]]:
    """The documents of job.yaml."""
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def arguments() -> list[str]:
    """Those of the container up to the script, with the places of ``pod.sh``."""
    (job,) = (one for one in manifests() if one["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    words: list[str] = container["args"]
    words = words[: words.index("train.py")]
    changed = {"--state-dir=/state": "--state-dir=/srv"}
    return [changed.get(word, word) for word in words if "--metrics" not in word]


class Pods:
    """Containers, one after another, of one run."""

    def __init__(self, directory: Path) -> None:
        """``directory``: where the volumes lie."""
        self.state, self.work = directory / "state", directory / "work"
        for volume in (self.state, self.work):
            volume.mkdir()
        (self.work / "train.py").write_text(SCRIPT)
        self.outer: subprocess.Popen[str] | None = None

    def start(self) -> int:
        """A fresh one; its first process, as we see it."""
        words = ["--snapshot-every=10steps", "train.py", "/srv/result", "0.1"]
        self.outer = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *(str(POD), str(self.state), str(self.work), "256m"),
                *(COMMAND, *arguments(), *words),
            ],
            env={**os.environ, "HOME": "/tmp"},  # noqa: S108  # in the container
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ends = time.monotonic() + PATIENCE
        while not (children := psutil.Process(self.outer.pid).children()):
            if self.outer.poll() is not None or time.monotonic() > ends:
                raise UnexpectedPodError(
                    f"it did not start: {self.outer.communicate()}"
                )
            time.sleep(0.05)
        return children[0].pid

    def until_step(self, step: int) -> None:
        """Wait until training has done ``step``."""
        ends = time.monotonic() + PATIENCE
        while self._step() < step:
            if time.monotonic() > ends:
                raise UnexpectedPodError(f"never came to step {step}")
            time.sleep(0.05)

    def _step(self) -> int:
        pages = map(read_page, self.state.glob("jobs/**/page"))
        return max((page.step or 0 for page in pages if page is not None), default=0)

    def end(self) -> tuple[int, str]:
        """Wait for its end: exit code, as ``unshare`` passes it on, and output."""
        assert self.outer is not None
        output, _ = self.outer.communicate(timeout=PATIENCE)
        return self.outer.returncode, output


def undisturbed(directory: Path) -> str:
    """The bits of a run that nobody disturbs."""
    (directory / "train.py").write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "train.py", "result"],
        cwd=directory,
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )
    return (directory / "result").read_text()


def killed_and_evicted(directory: Path) -> list[str]:
    """SIGKILL of the whole container, then an eviction, then the end; what was seen.
    Raises UnexpectedError."""
    seen: list[str] = []
    bits = undisturbed(directory)
    pods = Pods(directory)
    first = pods.start()
    pods.until_step(KILLED_STEP)
    os.kill(first, signal.SIGKILL)
    code, output = pods.end()
    if not code:  # unshare has no code for it
        raise UnexpectedPodError(f"killed, it ended with {code}: {output}")
    seen.append(f"killed at step {KILLED_STEP} or later")
    second = pods.start()
    pods.until_step(EVICTED_STEP)
    os.kill(second, signal.SIGTERM)
    code, output = pods.end()
    if code != 75 or "drained at step" not in output:
        raise UnexpectedPodError(f"evicted, it ended with {code}: {output}")
    if "from the snapshot at step" not in output:
        raise UnexpectedPodError(f"it began from the top: {output}")
    seen.append(next(one for one in output.splitlines() if "drained at step" in one))
    pods.start()
    code, output = pods.end()
    if code or (pods.state / "result").read_text() != bits:
        raise UnexpectedPodError(f"ended with {code}, or other bits: {output}")
    seen.append(f"finished after {STEPS} steps, bit-identical")
    pods.start()
    code, output = pods.end()
    if code or "has finished before" not in output:
        raise UnexpectedPodError(f"trained again, ended with {code}: {output}")
    seen.append("started once more: nothing was done again")
    return seen


def main() -> int:
    """The scenario."""
    needed = ("unshare", "setpriv", "mount")
    if os.geteuid() or any(shutil.which(name) is None for name in needed):
        print("container: needs root, unshare, setpriv and mount", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="tw-pod-") as directory:
        try:
            print("\n".join(killed_and_evicted(Path(directory))))
        except UnexpectedPodError as error:
            print(f"FAILED: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
