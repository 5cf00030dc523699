"""A soak: jobs train under a daemon while everything is killed, stopped, filled up and set
to another time, every few seconds. All of them end, and end to the bit as undisturbed.

Run as ``make soak MINUTES=30 SEED=1``. As root: a small file system is mounted. The jobs
have no GPU; that of the probe's is a library of ours, driven through the real binding.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from supervisor.host.control.control_client import NoDaemonError, RefusedError
from tests.chaos.machine import ChaosMachine, clock_library, mounted
from tests.soak.scripts import EPOCHS, KINDS
from tests.support.boxes import BoxUnderTest, box_in
from tests.support.command import marked
from tests.support.fake_nvml import FakeNvml, build

DISK_MIB = 512
AT_ONCE = 2
"""Jobs that train beside each other."""
GAP_SECONDS = (1.0, 6.0)
"""From one fault to the next."""
STOPPED_SECONDS, FULL_SECONDS, JUMP_SECONDS = 3.0, 4.0, 3600
END_SECONDS = 900.0
"""How long the last jobs may take when the faults are over."""
SHARED = Path("/dev/shm")  # noqa: S108  # where memory tiers lie
ENDED = {"finished", "gave_up", "drained", "interrupted"}
CONFIG = '[metrics]\nlisten = "127.0.0.1:0"\n'


@dataclass
class Soak:
    """One of them."""

    box: BoxUnderTest
    directory: Path
    draw: random.Random
    nvml: FakeNvml
    say: Callable[[str], None]
    expected: dict[str, str]
    """What a job of each kind leaves where nothing disturbs it."""
    shared: Path
    """Where their memory tiers lie, and nobody else's."""
    most_jobs: int | None = None
    """In all; None: as many as there is time for."""
    gap_seconds: tuple[float, float] = GAP_SECONDS
    jobs: dict[str, str] = field(default_factory=dict[str, str])
    """The kind of each."""
    done: Counter[str] = field(default_factory=Counter[str])
    """Faults."""
    memory: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """Monotonic seconds, and the daemon's RSS in bytes."""
    problems: list[str] = field(default_factory=list[str])

    # --- the jobs ----------------------------------------------------------------------

    @property
    def daemon(self) -> subprocess.Popen[str]:
        """The newest."""
        return self.box.daemons[-1]

    def shown(self) -> dict[str, dict[str, Any]]:
        """All jobs as the daemon shows them; it may need a moment to answer."""
        while True:
            try:
                jobs = self.box.client.get("/v1/status")["jobs"]
            except (NoDaemonError, RefusedError):
                time.sleep(0.2)
            else:
                return {job["job"]: job for job in jobs}

    def result(self, name: str) -> Path:
        """Where it says how it ended."""
        return self.directory / "results" / name

    def submit(self) -> None:
        """One more job, of the kind that has fewer."""
        kinds = list(self.jobs.values())
        kind = min(KINDS, key=kinds.count)
        name = f"{kind}-{len(self.jobs) + 1}"
        spec = {
            "script": str(self.directory / f"{kind}.py"),
            "args": [str(self.result(name))],
            "name": name,
            "working_directory": str(self.directory),
            "snapshots": {"every": "2s", "memory": str(self.shared)},
            "drain": {"grace": "20s"},
        }
        with contextlib.suppress(NoDaemonError):
            self.box.client.post("/v1/jobs", {"spec": spec})
            self.jobs[name] = kind

    def feed(self) -> None:
        """So many train at a time, and no more in all than are wanted."""
        states = [job["state"] for job in self.shown().values()]
        missing = AT_ONCE - sum(state not in ENDED for state in states)
        if self.most_jobs is not None:
            missing = min(missing, self.most_jobs - len(self.jobs))
        with contextlib.suppress(RefusedError):  # a full disk: later
            for _ in range(missing):
                self.submit()

    # --- the faults --------------------------------------------------------------------

    def training(self) -> int | None:
        """The process of one of the jobs, drawn; None: none trains."""
        pids = sorted(job["pid"] for job in self.shown().values() if job["pid"])
        return self.draw.choice(pids) if pids else None

    def kill_training(self) -> bool:
        """SIGKILL."""
        return _signal(self.training(), signal.SIGKILL)

    def kill_shim(self) -> bool:
        """The process that watches over it."""
        pid = self.training()
        with contextlib.suppress(psutil.NoSuchProcess):
            return pid is not None and _signal(psutil.Process(pid).ppid())
        return False

    def kill_daemon(self) -> bool:
        """And the next one begins at once."""
        self.daemon.kill()
        self.daemon.communicate()
        self.box.begin()
        return True

    def kill_probe(self) -> bool:
        """The process that asks the GPU driver."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.daemon.pid).children():
                if "supervisor.host.gpu.probe_main" in child.cmdline():
                    return _signal(child.pid)
        return False

    def stop_training(self) -> bool:
        """For a while."""
        return self._pause(self.training())

    def stop_daemon(self) -> bool:
        """For a while."""
        return self._pause(self.daemon.pid)

    def _pause(self, pid: int | None) -> bool:
        stopped = _signal(pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS if stopped else 0.0)
        return stopped and _signal(pid, signal.SIGCONT)

    def fill_disk(self) -> bool:
        """To the last byte, for a while."""
        filler = self.box.directory / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        time.sleep(FULL_SECONDS)
        filler.unlink()
        return True

    def jump(self) -> bool:
        """The wall clock, an hour there or back."""
        far = self.draw.choice((-JUMP_SECONDS, 0, JUMP_SECONDS))
        path = self.directory / "jump"
        path.with_suffix(".new").write_text(str(far))
        path.with_suffix(".new").rename(path)
        return True

    @property
    def faults(self) -> dict[str, tuple[int, Callable[[], bool]]]:
        """How often each is drawn, and what it does."""
        return {
            "SIGKILL of training": (4, self.kill_training),
            "SIGKILL of the shim": (2, self.kill_shim),
            "SIGKILL of the daemon": (3, self.kill_daemon),
            "SIGKILL of the GPU probe": (2, self.kill_probe),
            "SIGSTOP of training": (2, self.stop_training),
            "SIGSTOP of the daemon": (1, self.stop_daemon),
            "full disk": (1, self.fill_disk),
            "clock jump": (2, self.jump),
        }

    # --- the whole of it ---------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Faults for so long, then the end of all jobs."""
        self.box.begin()
        idle = self._descriptors()
        over, told = time.monotonic() + seconds, time.monotonic()
        names = list(self.faults)
        weights = [weight for weight, _ in self.faults.values()]
        while time.monotonic() < over:
            self.feed()
            self._measure()
            time.sleep(self.draw.uniform(*self.gap_seconds))
            (name,) = self.draw.choices(names, weights)
            self.done[name] += self.faults[name][1]()
            if time.monotonic() - told > 30.0:
                told = time.monotonic()
                self.say(self._progress(over - told))
        self._end(idle)

    def _progress(self, left: float) -> str:
        states = Counter(job["state"] for job in self.shown().values())
        said = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"{max(left, 0):.0f} s left; {self.done.total()} faults; jobs: {said}"

    def _measure(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            size = psutil.Process(self.daemon.pid).memory_info().rss
            self.memory.append((time.monotonic(), size))

    def _descriptors(self) -> int:
        """Of a daemon that has nothing to do: the fewest in some seconds."""
        counts: list[int] = []
        for _ in range(20):
            counts.append(psutil.Process(self.daemon.pid).num_fds())
            time.sleep(0.2)
        return min(counts)

    def _end(self, idle: int) -> None:
        deadline = time.monotonic() + END_SECONDS
        while any(job["state"] not in ENDED for job in self.shown().values()):
            if time.monotonic() > deadline:
                self.problems.append("not all jobs have ended")
                break
            time.sleep(1.0)
        self._judge_jobs(self.shown())
        incidents = self.box.json("incidents")
        self.say(f"incidents: {dict(Counter(one['cause'] for one in incidents))}")
        unknown = [one["id"] for one in incidents if one["cause"] == "unknown"]
        if unknown:
            self.problems.append(f"incidents of unknown cause: {unknown}")
        for number in unknown:
            self.say(self.box.do("explain", str(number)))
        self._measure()
        if self._descriptors() > idle:
            self.problems.append(f"more descriptors open than the {idle} at first")
        self._judge_memory()
        self.box.end(self.daemon)
        self._judge_ledger()

    def _judge_jobs(self, found: dict[str, dict[str, Any]]) -> None:
        for name, kind in self.jobs.items():
            job = found.get(name, {"state": "not there", "message": "", "attempt": 0})
            self.say(f"{name}: {job['state']}, {job['attempt']} attempts")
            if job["state"] != "finished":
                self.problems.append(f"{name}: {job['state']}: {job['message']}")
            elif self.result(name).read_text() != self.expected[kind]:
                self.problems.append(f"{name}: finished, with other bits")

    def _judge_memory(self) -> None:
        """The second half of the time against the first, by the largest of each."""
        middle = (self.memory[0][0] + self.memory[-1][0]) / 2
        early = max(size for at, size in self.memory if at <= middle)
        late = max(size for at, size in self.memory if at >= middle)
        text = f"{early / 2**20:.1f} MiB, then {late / 2**20:.1f} MiB"
        self.say(f"the daemon's memory at most: {text}")
        if late > early + (8 << 20):
            self.problems.append(f"the daemon's memory grew: {text}")

    def _judge_ledger(self) -> None:
        path = self.box.state / "ledger.db"
        with contextlib.closing(sqlite3.connect(path)) as ledger:
            found = ledger.execute("PRAGMA integrity_check").fetchall()
        if found != [("ok",)]:
            self.problems.append(f"the ledger is damaged: {found}")


def _signal(pid: int | None, number: int = signal.SIGKILL) -> bool:
    """Whether it was there."""
    if pid is None:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


# --- what is around it -------------------------------------------------------------------


def references(directory: Path, epochs: int) -> dict[str, str]:
    """What each kind leaves, run by plain Python."""
    found: dict[str, str] = {}
    for kind, text in KINDS.items():
        script, result = directory / f"{kind}.py", directory / f"{kind}.reference"
        script.write_text(text.replace("EPOCHS", str(epochs)))
        subprocess.run(
            [sys.executable, str(script), str(result)],
            check=True,
            capture_output=True,
            cwd=directory,
        )
        found[kind] = result.read_text()
    return found


@contextlib.contextmanager
def prepared(
    directory: Path, seed: int, say: Callable[[str], None], *, epochs: int = EPOCHS
) -> Generator[Soak]:
    """One in ``directory``; all that it left is a problem of it, and taken away."""
    (directory / "results").mkdir()
    expected = references(directory, epochs)
    machine = ChaosMachine(memory=directory)
    nvml = FakeNvml(build(directory), directory / "nvml.txt")
    nvml.gpus(2)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": nvml.environment["LD_LIBRARY_PATH"],
        "FAKE_NVML": nvml.environment["FAKE_NVML"],
        "LD_PRELOAD": str(clock_library(directory)),
        "CLOCK_JUMP": str(directory / "jump"),
    }
    shared = Path(tempfile.mkdtemp(prefix="soak-", dir=SHARED))
    soak = None
    try:
        with (
            mounted(directory / "disk", DISK_MIB, machine) as disk,
            box_in(disk) as box,
        ):
            box.config, box.environment = CONFIG, environment
            draw = random.Random(seed)  # noqa: S311  # of faults
            soak = Soak(box, directory, draw, nvml, say, expected, shared)
            yield soak
            left = marked(disk)
            if left:
                soak.problems.append(f"processes are left: {left}")
            box.daemons.clear()  # they have ended, and were heard
    finally:
        leavings = [*map(str, shared.rglob("*")), *_mounts(directory)]
        shutil.rmtree(shared)
        if soak is not None:
            soak.problems += machine.problems + [f"left: {one}" for one in leavings]


def _mounts(directory: Path) -> list[str]:
    """File systems below ``directory``: a test beside this one may have others."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    points = [line.split()[1] for line in mounts]
    return [point for point in points if Path(point).is_relative_to(directory)]


def main() -> int:
    """Print what happened; 1 if something does not hold."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=30.0)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--keep", type=Path, help="where the state is copied to")
    asked = arguments.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.0f} s  {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as place:
        with prepared(Path(place), asked.seed, say) as soak:
            try:
                soak.run(asked.minutes * 60)
            finally:
                if asked.keep is not None:
                    shutil.copytree(soak.box.state, asked.keep, dirs_exist_ok=True)
        for name in soak.faults:
            say(f"{name}: {soak.done[name]}")
    for problem in soak.problems:
        say(f"PROBLEM  {problem}")
    say(json.dumps({"jobs": len(soak.jobs), "problems": len(soak.problems)}))
    return int(bool(soak.problems))


if __name__ == "__main__":
    sys.exit(main())
