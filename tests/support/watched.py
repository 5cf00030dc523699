"""A GPU watch under test, whether its probe is a child or kept by a service."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.gpu.probe_supervision import Limits
from supervisor.host.gpu.gpu_monitor import GpuMonitor, GpuView
from supervisor.host.gpu.kernel_log import KernelLog

QUICK = Limits(
    first_seconds=20.0,
    sample_seconds=2.0,
    kill_seconds=1.0,
    wait_seconds=0.1,
    absent_seconds=0.2,
    gap_seconds=1.9,
)
DEADLINE_SECONDS = 60.0


class Watched:
    """A watch, and what it said."""

    def __init__(
        self, environment: dict[str, str], kernel: Path, *, link: Path | None = None
    ) -> None:
        self.said: list[str] = []
        self.watch = GpuMonitor(
            say=self.said.append,
            interval_seconds=0.1,
            limits=QUICK,
            environment=environment,
            kernel=KernelLog(kernel),
            link=link,
        )
        self.watch.start()

    def until(self, ask: Callable[[GpuView], object], what: str) -> GpuView:
        """The first view of which ``ask`` is true."""
        ends = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < ends:
            view = self.watch.latest()
            if ask(view):
                return view
            time.sleep(0.02)
        pytest.fail(f"waited in vain until {what}: {self.watch.latest()}, {self.said}")

    def sampled(self) -> GpuView:
        """The view after the next sample."""
        now = time.monotonic()
        return self.until(
            lambda view: view.sample and view.sample.taken > now, "there is a sample"
        )

    def gpu(self, index: int) -> Gpu:
        """A GPU in the next sample."""
        sample = self.sampled().sample
        assert sample is not None
        return sample.gpus[index]


def probes() -> list[psutil.Process]:
    """The probe processes that are children of ours."""
    return [child for child in psutil.Process().children() if _is_probe(child)]


def _is_probe(child: psutil.Process) -> bool:
    try:
        return "supervisor.host.gpu.probe_main" in child.cmdline()
    except psutil.NoSuchProcess:  # a zombie, too
        return False


def probe() -> psutil.Process:
    """The one probe that runs."""
    (found,) = probes()
    return found
