"""A night on two boxes with jobs of equal names: what dashboards and rules are shown.

On the first box a real training crashes and is resumed; on the second one a script keeps
crashing until it is given up, another job waits, and a GPU goes from bad to worse. Both
see GPUs of NVML's double. Where a third target is, a machine at which everything is wrong
at once comes up late.
"""

import contextlib
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.gpu.gpu_readings import RemappedRows, Xid
from supervisor.core.gpu.xids import XidLog, heard
from supervisor.core.jobs.job_status import JobState
from supervisor.core.metrics.machine_state import Collector, GpuTimes, JobsView
from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.metrics_server import MetricsServer
from tests.support.boxes import BoxUnderTest, box_in
from tests.support.fake_nvml import GIB, FakeNvml
from tests.support.metrics import BOARD, DIGITS, MACHINE
from tests.support.prometheus import prometheus, until_answered

ROOT = Path(__file__).parents[2]
TRAINS = """
import os, pathlib, keras, numpy
class CrashOnce(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == 80 and not pathlib.Path("crashed").exists():
            pathlib.Path("crashed").touch()
            os.abort()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = numpy.random.rand(640, 64).astype("float32")
model.fit(x, x[:, :1], batch_size=32, epochs=100_000, verbose=0, validation_split=0.1,
          callbacks=[CrashOnce()])
"""
CRASHES = """
import os, pathlib, time
while not pathlib.Path("seen").exists():
    time.sleep(0.1)
time.sleep(1.2)
os.abort()
"""
"""Once Prometheus has seen its counters at zero: a rise that began before is no rise."""
SLEEPS = "import time\ntime.sleep(900)\n"
HOT = 0x20
"""``nvmlClocksEventReasonSwThermalSlowdown``."""


@dataclass(frozen=True, slots=True)
class Night:
    """Where it happens."""

    prometheus: str
    training: BoxUnderTest
    failing: BoxUnderTest
    boxes: tuple[str, str]
    """Their targets: the first trains, the second fails."""
    failing_gpus: FakeNvml
    wrong: str
    """The target at which everything will be wrong; nobody answers there yet."""

    def only(self, query: str, place: int) -> str:
        """``query`` as Grafana asks it when one box is chosen."""
        return asked(query, instance=self.boxes[place])


def asked(query: str, *, instance: str = ".*") -> str:
    """``query`` as Grafana asks it, for these boxes."""
    chosen = {
        '"$instance"': f'"{instance}"',
        '"$run"': '".*"',
        '"$gpu"': '".*"',
        "$__rate_interval": "1m",
        "$__range": "10m",
    }
    for name, value in chosen.items():
        query = query.replace(name, value)
    return query


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextlib.contextmanager
def box_with_gpus(
    directory: Path, library: Path, *, gpus: int
) -> Generator[tuple[BoxUnderTest, FakeNvml, str]]:
    """A daemon that exports metrics and sees so many GPUs; and its target."""
    directory.mkdir()
    nvml = FakeNvml(library, directory / "script")
    nvml.gpus(gpus, throttle=0x4)
    target = f"127.0.0.1:{free_port()}"
    with box_in(directory) as box:
        box.environment = nvml.environment | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        box.config = f'[metrics]\nlisten = "{target}"\n'
        yield box, nvml, target


def rules_in(directory: Path) -> tuple[Path, ...]:
    """The rules, evaluated each second."""
    copies: list[Path] = []
    for name in ("recording.yml", "alerts.yml"):
        text = (ROOT / "deploy" / "prometheus" / name).read_text()
        copies.append(directory / name)
        copies[-1].write_text(text.replace("interval: 1m", "interval: 1s"))
    return tuple(copies)


@contextlib.contextmanager
def night(
    directory: Path, library: Path, tool: Callable[[str], str]
) -> Generator[Night]:
    """Both boxes at work, and a Prometheus that looks at them."""
    with contextlib.ExitStack() as held:
        training, good, first = held.enter_context(
            box_with_gpus(directory / "training", library, gpus=2)
        )
        failing, bad, second = held.enter_context(
            box_with_gpus(directory / "failing", library, gpus=2)
        )
        wrong = f"127.0.0.1:{free_port()}"
        data = directory / "prometheus"
        data.mkdir()
        address = held.enter_context(
            prometheus(
                *(tool("prometheus"), first, data, second, wrong), rules=rules_in(data)
            )
        )
        bad.set({"0.throttle": HOT})
        for box in (training, failing):
            box.begin()
        _submit(training, TRAINS, "train", "--cpu-memory", "256MiB")
        _submit(failing, SLEEPS, "train")
        crashes = _submit(failing, CRASHES, "crashes")
        _submit(failing, SLEEPS, "waits")
        made = Night(address, training, failing, (first, second), bad, wrong)
        none = f'trainwarden_restarts_total{{instance="{second}",run="crashes"}} == 0'
        until_answered(address, none)
        (crashes.parent / "seen").touch()
        _until_it_is_late(made, good)
        yield made


def _submit(box: BoxUnderTest, text: str, name: str, *more: str) -> Path:
    script = box.script(text, f"{name}.py")
    box.do("submit", "--name", name, "--gpu-count", "1", *more, script)
    return script


def _until_it_is_late(made: Night, good: FakeNvml) -> None:
    """The training has crashed and gone on; the other box has given a job up."""
    first, second = made.boxes
    for query in (
        f'trainwarden_restarts_total{{instance="{first}",cause="native_crash"}} == 1',
        f'trainwarden_phase{{instance="{first}",phase="training"}} == 1',
    ):
        until_answered(made.prometheus, query)
    job = made.training.until(lambda job: job["pid"] and job["step"])
    none = 2**32 - 1
    good.set({"0.processes": f"{job['pid']}:{GIB}:{none}", "0.living": "1"})
    for query in (
        f'trainwarden_gpu_process_memory_bytes{{instance="{first}"}} > 0',
        f'trainwarden_allocator_source{{instance="{first}",source="map"}} == 1',
        f'trainwarden_snapshot_interval_seconds{{instance="{first}"}} > 0',
        f'trainwarden_run_state{{instance="{second}",state="gave_up"}} == 1',
        f'trainwarden_run_state{{instance="{second}",run="train",state="running"}} == 1',
    ):
        until_answered(made.prometheus, query)


def worsen(made: Night) -> None:
    """A GPU of the failing box goes from bad to worse: what its driver says."""
    made.failing_gpus.set(
        {
            "0.ecc.volatile.uncorrected": 2,
            "0.rows": "1,2,1,1",
            "1.lost": 1,
        }
    )
    made.failing_gpus.xid(0, 48)
    for _ in range(6):
        made.failing_gpus.xid(0, 31)


@contextlib.contextmanager
def everything_wrong(made: Night) -> Generator[None]:
    """The third target comes up: an exporter of a machine that nobody would want."""
    board = ExpositionCache()
    host, _, port = made.wrong.rpartition(":")
    before = replace(
        DIGITS, attempt=1, step=2, restarts={}, incidents={}, step_counts=(0,) * 12,
        step_seconds_sum=0.0, phase_seconds={"training": 0.4},
    )  # fmt: skip
    now = replace(
        DIGITS,
        loss=float("nan"),
        forecast_seconds={"device": 600.0, "contiguous": 1200.0, "host": 3600.0},
    )
    (gpu,) = MACHINE.gpus
    rows = RemappedRows(corrected=1, uncorrected=2, pending=True, failed=True)
    first = replace(MACHINE, xids=XidLog(), gpus=(replace(gpu, ecc={}, rows=rows),))
    jobs = JobsView(
        counts={(JobState.QUEUED, "anna"): 3, (JobState.RUNNING, "anna"): 1},
        waits={"anna": 5 * 3600.0},
        holders={BOARD: ("digits", "anna")},
        unwritten=True,
    )
    times = {key: 2 * seconds for key, seconds in MACHINE.gpu_times.devices.items()}
    later = replace(
        first,
        gpus=(replace(gpu, rows=rows),),
        xids=heard(XidLog(), [Xid(code=48, at=9.0, gpu=BOARD)], source="nvml", gpus=()),
        jobs=jobs,
        gpu_times=GpuTimes(
            devices=times, runs=MACHINE.gpu_times.runs, users=MACHINE.gpu_times.users
        ),
        collectors={
            "host": Collector(success=False, seconds=2.0),
            "nvml": Collector(success=False, seconds=11.0),
            "kernel_log": Collector(success=False),
        },
    )
    with MetricsServer(Address(host, int(port)), board.read):
        board.publish([before], first)
        attempts = f'trainwarden_attempts_total{{instance="{made.wrong}"}}'
        until_answered(made.prometheus, f"{attempts} == 1")
        board.publish([now], later)
        until_answered(made.prometheus, f"{attempts} == 2")
        yield
