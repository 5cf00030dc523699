"""Four boxes and the faults that fire alerts: each is real, but for GPUs of NVML's double.

``well`` trains and nothing befalls it; ``sick`` has jobs that go wrong, each in its own
way, and GPUs that fail; the disk of ``full`` is; ``away`` has a daemon that is killed again
and again, a driver that hangs, and, as in many containers, no kernel log.
"""

import contextlib
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.boxes import BoxUnderTest
from tests.support.command import COMMAND
from tests.support.fake_nvml import FakeNvml
from tests.support.hurried_rules import hurried_rules
from tests.support.memory_scripts import HEAD, HOST_LEAKING, LEAKING
from tests.support.night import HOT, SLEEPS, box_with_gpus
from tests.support.prometheus import prometheus, until_answered
from tests.support.small_disk import fill, mounted

ROOT = Path(__file__).parents[2]
MISBEHAVE = ROOT / "trainers" / "reference" / "misbehave.py"
CGROUPS = Path("/sys/fs/cgroup")
MIB = 2**20
POWER_BRAKE = 0x80
"""``nvmlClocksThrottleReasonHwPowerBrakeSlowdown``."""
LIMITS = "[limits]\ncpu_slots = 32\ncpu_jobs = 31\n"
"""All at once, on however few cores."""
TRAINS = (
    HEAD
    + """
class Paced(keras.callbacks.Callback):
    '''Leaves the processors to others; slow from the step on that it is told.'''
    def on_train_batch_end(self, batch, logs=None):
        slow = os.path.exists(os.environ.get("SLOW", "/nowhere"))
        time.sleep(0.4 if slow else 0.1)


model.fit(x, y, batch_size=16, epochs=100_000, callbacks=[Paced()], verbose=0)
"""
)
IN_PIECES = (
    HEAD
    + """
wide = keras.Sequential([keras.Input((8,)), layers.Dense(40_000), layers.Dense(1)])
wide.compile("sgd", "mse", jit_compile=False)


class Pieces(keras.callbacks.Callback):
    '''Takes all memory and gives back most: in the gaps a step has hardly room.'''
    kept = []
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.1)
        if batch != 1 or self.kept:
            return
        blocks = []
        try:
            while True:
                blocks.append(tf.zeros([2 * MIB], tf.uint8))
        except tf.errors.ResourceExhaustedError:
            self.kept = [*blocks[6:28:7], *blocks[28::2]]


wide.fit(x, y, batch_size=64, epochs=100_000, callbacks=[Pieces()], verbose=0)
"""
)
SPEC = """
script = "{script}"
name = "{name}"
working_directory = "{directory}"
{more}
"""


@dataclass(frozen=True, slots=True)
class FaultyBox:
    """A box, its GPUs, and its target."""

    daemon: BoxUnderTest
    gpus: FakeNvml
    target: str

    def submit(self, name: str, script: Path, *rest: str, more: str = "") -> None:
        """A job; ``more`` of its spec; ``rest``: options, then ``--`` and arguments."""
        directory = self.daemon.directory / name
        directory.mkdir()
        spec = directory / "spec.toml"
        spec.write_text(
            SPEC.format(script=script, name=name, directory=directory, more=more)
        )
        self.daemon.do("submit", "--spec", spec, *rest)

    def train(self, name: str, text: str, *rest: str, more: str = "") -> None:
        """A job whose script has this text."""
        self.submit(name, self.daemon.script(text, f"{name}.py"), *rest, more=more)


@dataclass(frozen=True, slots=True)
class FaultyNight:
    """Where it all happens: four boxes, and a Prometheus to which a minute is a second."""

    prometheus: str
    well: FaultyBox
    sick: FaultyBox
    full: FaultyBox
    away: FaultyBox


@contextlib.contextmanager
def faulty_night(
    directory: Path, library: Path, tool: Callable[[str], str]
) -> Generator[FaultyNight]:
    """Four daemons, and a Prometheus to which a minute is a second."""
    with contextlib.ExitStack() as held:
        boxes = [
            FaultyBox(
                *held.enter_context(box_with_gpus(directory / name, library, gpus=4))
            )
            for name in ("well", "sick", "full", "away")
        ]
        well, sick, full, away = boxes
        held.enter_context(mounted(full.daemon.state, "160m")).chmod(0o700)
        away.daemon.program = str(without_kernel_log(away.daemon.directory))
        data = directory / "prometheus"
        data.mkdir()
        rules = hurried_rules(ROOT / "deploy" / "prometheus", data)
        first, *others = (box.target for box in boxes)
        address = held.enter_context(
            prometheus(tool("prometheus"), first, data, *others, rules=rules)
        )
        sick.gpus.set({f"{gpu}.utilization": 0 for gpu in range(4)})
        sick.gpus.set({"2.throttle": HOT | POWER_BRAKE})
        for box in boxes:
            box.daemon.config += LIMITS
            box.daemon.begin()
            until_answered(
                address, f'trainwarden_build_info{{instance="{box.target}"}}'
            )
        yield FaultyNight(address, well, sick, full, away)


def without_kernel_log(directory: Path) -> Path:
    """A command for a daemon that may not open ``/dev/kmsg``: a socket lies over it."""
    over = directory / "kmsg"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(over))
    program = directory / "without-kernel-log"
    program.write_text(
        "#!/bin/sh\nset -e\n"
        'if [ "$1" != daemon ]; then exec ' + COMMAND + ' "$@"; fi\n'
        f"exec unshare --mount sh -ec 'mount --bind {over} /dev/kmsg; "
        f'exec {COMMAND} "$@"\' sh "$@"\n'
    )
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def memory_cgroup(limit: int) -> Generator[Path]:
    """A memory cgroup with that limit, in bytes."""
    one = CGROUPS / "memory"
    base, name = (
        (one, "memory.limit_in_bytes") if one.is_dir() else (CGROUPS, "memory.max")
    )
    try:
        path = Path(tempfile.mkdtemp(prefix="memory-", dir=base))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error.strerror}")
    try:
        (path / name).write_text(str(limit))
        yield path
    finally:
        path.rmdir()


def begin_training(made: FaultyNight) -> None:
    """What will be disturbed has to train first."""
    snapshots = 'snapshots = {every = "2s", memory = "off"}'
    made.well.train("train", TRAINS, "--gpu-count", "1")
    made.sick.train("stuck", TRAINS, more=snapshots)
    made.full.train("saves", TRAINS, more=snapshots)
    slow = str(made.sick.daemon.directory / "slow")
    made.sick.train("slows", TRAINS, "--env", f"SLOW={slow}")
    made.sick.train("holds", SLEEPS, "--gpu-count", "1")
    made.sick.train("fails", SLEEPS, "--gpus", "3")
    made.sick.train("waits", SLEEPS, "--gpu-count", "4")


def go_wrong(made: FaultyNight, cgroup: Path) -> None:
    """Jobs that need nobody to go wrong."""
    sick = made.sick
    leaks = ("--cpu-memory", "400MiB", "--env", "LEAK=tensors", "--env", "PACE=0.2")
    sick.train("leaks", LEAKING.replace("epochs=14", "epochs=60"), *leaks)
    sick.train("hoards", HOST_LEAKING.replace("epochs=16", "epochs=100"),
               "--env", "LEAK=arrays")  # fmt: skip
    sick.train("pieces", IN_PIECES, "--cpu-memory", "160MiB",
               "--env", "TF_ENABLE_ONEDNN_OPTS=0")  # fmt: skip
    crash = (
        'args = ["segmentation-fault", "--plain", "--steps", "900", "--at", "150", '
        '"--times", "0"]'
    )
    sick.submit("crashes", MISBEHAVE, more=crash)
    lose = 'args = ["lose-the-loss", "--at", "30", "--times", "0", "--pause", "0.1"]'
    sick.submit("loses", MISBEHAVE, more=lose)
    eat = (
        'args = ["eat-memory", "--plain", "--steps", "900", "--at", "150", '
        '"--megabytes", "2000", '
        f'"--path", "{cgroup}"]'
    )
    sick.submit("eats", MISBEHAVE, more=eat)


def disturb(made: FaultyNight) -> None:
    """What happens to those that train, to GPUs, to a disk and to a daemon."""
    stop(made, signal.SIGSTOP)
    (made.sick.daemon.directory / "slow").touch()
    failing = made.sick.daemon.until(lambda job: job["pid"], "fails")["pid"]
    gpus = made.sick.gpus
    gpus.set({"3.processes": f"{failing}:{MIB}:{2**32 - 1}"})
    gpus.set({"0.ecc.volatile.uncorrected": 2, "0.rows": "1,2,1,1", "1.lost": 1})
    gpus.xid(0, 48)
    for _ in range(6):
        gpus.xid(0, 31)
    made.away.gpus.set({"hang.nvmlDeviceGetMemoryInfo_v2": 1})


def lose_a_gpu(made: FaultyNight) -> None:
    """The GPU under a job reports that it has failed, and the job dies of it."""
    pid = made.sick.daemon.until(lambda job: job["pid"], "fails")["pid"]
    made.sick.gpus.xid(3, 79)
    os.kill(pid, signal.SIGABRT)


def fill_up(made: FaultyNight) -> Iterator[None]:
    """A disk fills up, and the daemon's reserve after it; then something happens that
    ought to be written down. Goes on each time it is asked."""
    state = made.full.daemon.state
    fill(state / "hog")
    while (state / "ballast").exists():
        yield
    fill(state / "hog-in-the-reserve")
    os.kill(
        made.full.daemon.until(lambda job: job["pid"], "saves")["pid"], signal.SIGKILL
    )


def restart(box: FaultyBox) -> None:
    """The daemon is killed, and started by whoever looks after it."""
    box.daemon.end(box.daemon.daemons[-1], signal.SIGKILL)
    box.daemon.begin()


def stop(made: FaultyNight, number: int) -> None:
    """Send the training of ``stuck`` a signal."""
    pid = made.sick.daemon.until(lambda job: job["pid"], "stuck")["pid"]
    os.kill(pid, number)
