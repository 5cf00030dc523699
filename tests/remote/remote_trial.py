"""``make remote``: snapshots beyond the machine, against a real server of S3's interface.

* Whole runs: killed with their machine, gone on with on a new one (another directory,
  another host name, an empty ``/dev/shm``), with the bits of a run that nobody disturbed.
* The uploader, killed at 100 places of an upload: what a new machine would go on from is
  whole each time, and the next uploader sends the rest.
* Throughput of uploads against the vendor's own client on the same bytes.
* What uploads cost training, in paired runs.

Needs root for namespaces.
"""

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.s3.transfer import (  # pyright: ignore[reportMissingTypeStubs]  # has none
    TransferConfig,
)

from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.host.remote.remote_job import PART_BYTES, RemoteJob, Terms
from supervisor.host.remote.remote_store import open_store
from supervisor.wire.page import read_page
from supervisor.wire.paths import RunPaths
from supervisor.wire.snapshots.manifest import TENSORS
from tests.slurm.slow_training import SCRIPT, STEPS
from tests.support.command import COMMAND, PATIENCE
from tests.support.remote_tiers import RUN_ID, TOKEN, write_snapshot
from tests.support.s3_server import BUCKET, SECRET, S3Server, s3_server
from tests.support.uploading import consistent, progress_of, until, uploading

KILLS = 100
SIZE = 200_000
"""Of the snapshot that is sent when the uploader is killed, in bytes."""
PART = 5_000
RATE = 150_000
LATEST = 1.4
"""Of the time that the upload takes: the last ones come after its end."""
WORTH = 0.8
"""Of the plain client's throughput, at least."""
STALL = 0.01
PAIRS = 5
BIG = 256 << 20


PAGES = "state/jobs/train/run-1/attempts/*/page"


class UnexpectedRemoteError(Exception):
    """What did not come out as promised."""


@dataclass
class RemoteMachine:
    """A machine of its own: directory, host name, memory tier."""

    root: Path
    name: str
    environment: Mapping[str, str]

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        (self.root / "train.py").write_text(SCRIPT)

    def start(self, address: str, *, seconds: float) -> subprocess.Popen[str]:
        """``run`` on it, as a scheduler starts it."""
        (self.root / "job.toml").write_text(
            f'script = "train.py"\nname = "train"\nargs = ["result", "{seconds}"]\n'
            f'[snapshots]\nevery = "5steps"\nremote = "{address}"\n'
        )
        inner = 'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && exec "$@"'  # its own
        return subprocess.Popen(
            [
                *("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child"),
                *("--mount-proc", "sh", "-c", inner, self.name),
                *(COMMAND, "run", "--state-dir", "state", "--requeued"),
                *("--spec", "job.toml"),
            ],
            cwd=self.root,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def step(self) -> int:
        """That training has reached."""
        pages = map(read_page, self.root.glob(PAGES))
        return max((page.step or 0 for page in pages if page is not None), default=0)

    def sent_step(self) -> int:
        """That is whole in the remote tier, as the machine knows."""
        found = map(progress_of, map(RunPaths, self.root.glob("state/jobs/*/run-*")))
        return max((one.step or 0 for one in found if one is not None), default=0)

    def until_step(self, step: int, *, sent: int = 0) -> None:
        """Wait until training has reached it."""
        ends = time.monotonic() + PATIENCE
        while self.step() < step or self.sent_step() < sent:
            if time.monotonic() > ends:
                raise UnexpectedRemoteError(f"{self.name} never came to step {step}")
            time.sleep(0.02)

    def lose(self) -> None:
        """Nothing is left of its disk."""
        shutil.rmtree(self.root)


def end(process: subprocess.Popen[str]) -> str:
    """Its output; it must have finished."""
    output, _ = process.communicate(timeout=PATIENCE)
    if process.returncode:
        raise UnexpectedRemoteError(f"ended with {process.returncode}: {output}")
    return output


def undisturbed(directory: Path) -> str:
    """The bits of a run that nobody disturbs."""
    directory.mkdir()
    (directory / "train.py").write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "train.py", "result"],
        cwd=directory, check=True, timeout=PATIENCE, capture_output=True,
    )  # fmt: skip
    return (directory / "result").read_text()


def whole_runs(directory: Path, server: S3Server) -> str:
    """Three machines are lost one after another, at different steps; the fourth ends it."""
    bits = undisturbed(directory / "undisturbed")
    address = f"s3://{BUCKET}/runs"
    told: list[str] = []
    for number, step in enumerate((12, 33, 61)):
        machine = RemoteMachine(
            directory / f"machine-{number}" / "srv", f"vm-{number}", server.environment
        )
        process = machine.start(address, seconds=0.15)
        machine.until_step(step, sent=step - 11)
        told.append(f"{machine.name} lost at step {machine.step()}")
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate(timeout=PATIENCE)
        if number and f"of vm-{number - 1} is here now" not in output:
            raise UnexpectedRemoteError(f"it did not go on: {output}")
        no_secret(machine.root, output)
        machine.lose()
    last = RemoteMachine(directory / "elsewhere", "vm-last", server.environment)
    output = end(last.start(address, seconds=0.0))
    if "of vm-2 is here now" not in output:
        raise UnexpectedRemoteError(f"it did not go on: {output}")
    if (last.root / "result").read_text() != bits:
        raise UnexpectedRemoteError(
            "other bits than those of a run that nobody disturbed"
        )
    no_secret(last.root, output)
    again = RemoteMachine(directory / "later", "vm-later", server.environment)
    if "has finished before, on vm-last" not in end(again.start(address, seconds=0.0)):
        raise UnexpectedRemoteError("a run that had finished was done again")
    return f"{'; '.join(told)}; finished after {STEPS} steps on vm-last, bit-identical"


def no_secret(root: Path, output: str) -> None:
    """The key is in no file of the machine, and in nothing that was said."""
    files = (path for path in root.rglob("*") if path.is_file())
    told = [str(path) for path in files if SECRET.encode() in path.read_bytes()]
    if told or SECRET in output:
        raise UnexpectedRemoteError(f"a secret was told: {told or output}")


def killed_uploads(directory: Path, server: S3Server) -> str:
    """SIGKILL at 100 places of an upload, by how many of its parts were there."""
    run, address = RunPaths(directory / "run-1"), f"s3://{BUCKET}/killed"
    run.snapshots.mkdir(parents=True)
    with in_environment(server.environment):
        write_snapshot(run.snapshots, step=10, serial=1, size=PART)
        with uploading(run, address, part_bytes=PART):
            until(run, step=10)
        found: Counter[int | None] = Counter()
        parts: set[int] = set()
        for place in range(KILLS):
            step, serial = 20 + place, 2 + place
            source = write_snapshot(run.snapshots, step=step, serial=serial, size=SIZE)
            with uploading(run, address, part_bytes=PART, bytes_per_second=RATE):
                until(run, sending=source.name)
                time.sleep(place / KILLS * LATEST * SIZE / RATE)
            parts.add(parts_of(address, serial))
            there = directory / "there"
            shutil.rmtree(there, ignore_errors=True)
            reached = consistent(run, address, there)
            if reached is None or reached > step:
                raise UnexpectedRemoteError(
                    f"at place {place} it would go on from {reached}"
                )
            found[step - reached] += 1
            if place % 10 == 9:  # ... and the rest of it is sent
                with uploading(run, address, part_bytes=PART):
                    until(run, step=step, sending=None)
                if consistent(run, address, there) != step:
                    raise UnexpectedRemoteError(
                        f"at place {place} the rest was not sent"
                    )
    whole = found[0]
    return (
        f"{KILLS} kills with {min(parts)} to {max(parts)} parts there ({len(parts)} "
        f"different): whole each time, {whole} times the newest, else the "
        "last one before; every tenth sent on to its end"
    )


def parts_of(address: str, serial: int) -> int:
    """How many parts of a snapshot lie there."""
    job = RemoteJob(open_store(address, below="train"), "train")
    there = job.standing().parts
    return sum(len(parts) for name, parts in there.items() if name.serial == serial)


def throughput(directory: Path, server: S3Server) -> str:
    """The same bytes by the vendor's client and as a snapshot, in turn."""
    source = write_snapshot(directory / "big", step=1, serial=1, size=BIG)
    client = server.client()
    config = TransferConfig(  # its best: as many at once, of the same size
        multipart_chunksize=PART_BYTES,
        multipart_threshold=PART_BYTES,
        max_concurrency=4,
    )
    ratios: list[float] = []
    with in_environment(server.environment):
        for turn in range(PAIRS):
            began = time.monotonic()
            client.upload_file(
                str(source / TENSORS), BUCKET, f"plain-{turn}", Config=config
            )
            plain = time.monotonic() - began
            job = RemoteJob(
                open_store(f"s3://{BUCKET}/fast-{turn}", below="train"), "train"
            )
            began = time.monotonic()
            job.send(
                source, run_id=RUN_ID, claim=Claim(1, TOKEN), there={}, terms=Terms(),
                run_files=b"{}", may_seal=lambda: True,
            )  # fmt: skip
            ratios.append(plain / (time.monotonic() - began))
            for name in (f"plain-{turn}", *keys(client, f"fast-{turn}/")):
                client.delete_object(Bucket=BUCKET, Key=name)
    ratio = statistics.median(ratios)
    if ratio < WORTH:
        raise UnexpectedRemoteError(f"{ratio:.2f} of the plain client's throughput")
    return (
        f"{ratio:.2f} of the plain client's throughput, hashes included (median of "
        f"{PAIRS}; {min(ratios):.2f} to {max(ratios):.2f}; {BIG >> 20} MiB)"
    )


def keys(client: Any, prefix: str) -> list[str]:
    """The objects below it."""
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [one["Key"] for one in found.get("Contents", ())]


def stall(directory: Path, server: S3Server) -> str:
    """Training with and without uploads, in turn: time of a step, by its own count."""
    ratios: list[float] = []
    for turn in range(PAIRS):
        seconds: dict[str, float] = {}
        order = ["off", f"s3://{BUCKET}/stall-{turn}"]
        for address in order if turn % 2 else reversed(order):
            machine = RemoteMachine(
                directory / f"stall-{turn}-{address[:2]}", "vm", server.environment
            )
            end(machine.start(address, seconds=0.05))
            (page,) = filter(None, map(read_page, machine.root.glob(PAGES)))
            seconds[address] = (page.step_seconds_sum or 0.0) / STEPS
        ratios.append(seconds[order[1]] / seconds["off"] - 1.0)
    middle = statistics.median(ratios)
    if middle > STALL:
        raise UnexpectedRemoteError(f"a step takes {middle:.1%} longer with uploads")
    return (
        f"a step takes {middle:+.2%} with a snapshot sent every 5 steps (median of "
        f"{PAIRS} pairs; {min(ratios):+.2%} to {max(ratios):+.2%})"
    )


@contextlib.contextmanager
def in_environment(variables: Mapping[str, str]) -> Generator[None]:
    """With these variables."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


TRIALS = {
    "runs": whole_runs,
    "kills": killed_uploads,
    "throughput": throughput,
    "stall": stall,
}


def main(names: list[str]) -> int:
    """Those of these names, or all; the exit code."""
    if os.geteuid():
        print("make remote needs root for its namespaces")
        return 1
    failed = 0
    for name in names or TRIALS:
        directory = Path(tempfile.mkdtemp(prefix=f"trainwarden-{name}-"))
        began = time.monotonic()
        try:
            with s3_server() as server:
                said = TRIALS[name](directory, server)
        except (UnexpectedRemoteError, AssertionError) as error:
            failed, said = 1, f"NOT AS PROMISED: {error}"
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        print(f"{name:<12}{time.monotonic() - began:6.0f} s  {said}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
