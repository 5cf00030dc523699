"""``make container``: a run in containers that are killed and evicted, each time in a fresh
one: it ends with the bits of a run that nobody disturbed. Once with the same volume, and
once without any, from the remote tier (a server of S3's interface on this machine).

There is no container engine here, and no image. The kernel's part of a container is real:
namespaces of mounts and processes, a root that is read-only, no capabilities, an empty
``/dev/shm`` each time (``pod.sh``). The arguments are those of ``deploy/kubernetes/job.yaml`` and ``job-remote.yaml``.
Needs root, and a repository that does not lie in /tmp: a container has a /tmp of its own.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from supervisor.wire.page import read_page
from supervisor.wire.paths import RunPaths
from tests.slurm.slow_training import SCRIPT, STEPS
from tests.support.command import COMMAND, PATIENCE
from tests.support.s3_server import BUCKET, S3Server, s3_server
from tests.support.uploading import progress_of

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
VOLUME, REMOTE = "job.yaml", "job-remote.yaml"
POD = Path(__file__).with_name("pod.sh")
KILLED_STEP, EVICTED_STEP = 25, 50
RUNS = "jobs/*/run-*"


class UnexpectedPodError(Exception):
    """What did not come out as promised."""


def manifests(name: str) -> list[dict[str, Any]]:
    """The documents of a file."""
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def arguments(name: str) -> list[str]:
    """Those of the container, up to the script where it is named, with the places of
    ``pod.sh``."""
    (job,) = (one for one in manifests(name) if one["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    words: list[str] = container["args"]
    if "train.py" in words:
        words = words[: words.index("train.py")]
    changed = {
        "--state-dir=/state": "--state-dir=/srv",
        "--spec=/work/job.toml": "--spec=/media/job.toml",
    }
    return [changed.get(word, word) for word in words if "--metrics" not in word]


class Pods:
    """Containers, one after another, of one run."""

    def __init__(self, directory: Path, *, server: S3Server | None = None) -> None:
        """``directory``: where the volumes lie. ``server``: of the remote tier, where there
        is one; then each container begins with an empty state."""
        self.directory, self.work = directory, directory / "work"
        self.state, self.server = directory / "state", server
        for volume in (self.state, self.work):
            volume.mkdir()
        (self.work / "train.py").write_text(SCRIPT)
        if server is not None:
            (self.work / "job.toml").write_text(
                'script = "train.py"\nname = "train"\nargs = ["/srv/result", "0.1"]\n'
                f'[snapshots]\nevery = "10steps"\nremote = "s3://{BUCKET}/pods"\n'
            )
        self.outer: subprocess.Popen[str] | None = None

    def start(self) -> int:
        """A fresh one; its first process, as we see it."""
        words = arguments(VOLUME if self.server is None else REMOTE)
        if self.server is None:
            words += ["--snapshot-every=10steps", "train.py", "/srv/result", "0.1"]
        else:  # of an emptyDir nothing is left for the next pod
            shutil.rmtree(self.state)
            self.state.mkdir()
        server: Mapping[str, str] = (
            {} if self.server is None else self.server.environment
        )
        self.outer = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *(str(POD), str(self.state), str(self.work), "256m"),
                *(COMMAND, *words),
            ],
            env={**os.environ, **server, "HOME": "/tmp"},  # noqa: S108  # in the container
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

    def did_not_fetch(self, output: str) -> bool:
        """Whether a container that had to go on from the remote tier did not."""
        return self.server is not None and "is here now" not in output

    def until_sent(self, step: int) -> None:
        """Wait until the remote tier has a snapshot of it; without a tier at once."""
        ends = time.monotonic() + PATIENCE
        while self.server is not None:
            found = (progress_of(RunPaths(path)) for path in self.state.glob(RUNS))
            if max((one.step or 0 for one in found if one), default=0) >= step:
                return
            if time.monotonic() > ends:
                raise UnexpectedPodError(f"step {step} was never sent")
            time.sleep(0.05)

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


def killed_and_evicted(pods: Pods) -> list[str]:
    """SIGKILL of the whole container, then an eviction, then the end; what was seen.
    Raises UnexpectedPodError."""
    seen: list[str] = []
    bits = undisturbed(pods.directory)
    first = pods.start()
    pods.until_step(KILLED_STEP)
    pods.until_sent(KILLED_STEP - 15)
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
    if "from the snapshot at step" not in output or pods.did_not_fetch(output):
        raise UnexpectedPodError(f"it began from the top: {output}")
    seen.append(next(one for one in output.splitlines() if "drained at step" in one))
    pods.start()
    code, output = pods.end()
    if (
        code
        or pods.did_not_fetch(output)
        or (pods.state / "result").read_text() != bits
    ):
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
    if COMMAND.startswith("/tmp/"):  # noqa: S108  # the containers' own hides it
        print("container: the repository must not lie in /tmp", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as stack:
        failed = 0
        for server in (None, stack.enter_context(s3_server())):
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="tw-pod-"))
            print("from its volume:" if server is None else "from the remote tier:")
            try:
                found = killed_and_evicted(Pods(Path(place), server=server))
                print("\n".join(f"  {line}" for line in found), flush=True)
            except UnexpectedPodError as error:
                print(f"FAILED: {error}", file=sys.stderr)
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
