"""Our probe of the driver, as a child: its lines as they are, and as we read them."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from supervisor.core.gpu.gpu_readings import Gpu, GpuSample
from supervisor.core.gpu.probe_protocol import parse_line
from supervisor.host.gpu.probe_sources import PROBE

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ProbeLine:
    """One line. ``raw``: as NVML told it."""

    raw: dict[str, Any]
    sample: GpuSample

    @property
    def gpu(self) -> Gpu:
        """The GPU of the checks, which all children are told; else the first."""
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = self.sample.gpus
        return next((one for one in gpus if one.uuid == named), gpus[0])


class DriverProbe:
    """Lines of the probe, the newest last."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Its output is a pipe, unbuffered."""
        assert process.stdout is not None
        self._lines = process.stdout

    def now(self) -> ProbeLine:
        """The first line that was taken from now on. Raises RuntimeError without."""
        asked = time.monotonic()
        while True:
            line = self.line()
            if line.sample.taken - line.sample.seconds >= asked:
                return line

    def line(self, seconds: float = PATIENCE_SECONDS) -> ProbeLine:
        """The next line. Raises RuntimeError where none comes."""
        ready, _, _ = select.select([self._lines], [], [], seconds)
        line = self._lines.readline() if ready else b""
        sample = parse_line(line)
        if not isinstance(sample, GpuSample):
            message = f"the probe said {line!r}"
            raise RuntimeError(message)  # noqa: TRY004  # no matter of types
        return ProbeLine(json.loads(line), sample)

    def until(
        self, wanted: Callable[[ProbeLine], bool], seconds: float = PATIENCE_SECONDS
    ) -> tuple[ProbeLine, float]:
        """The first line that is ``wanted``, and after how many seconds it came.

        Raises RuntimeError where none does.
        """
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            line = self.line()
            if wanted(line):
                return line, time.monotonic() - began
        message = f"did not come within {seconds:.0f} s"
        raise RuntimeError(message)


@contextlib.contextmanager
def probing(interval_seconds: float = 0.05) -> Generator[DriverProbe]:
    """A probe that asks so often."""
    process = subprocess.Popen(
        [sys.executable, "-m", PROBE, str(interval_seconds)],
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield DriverProbe(process)
    finally:
        process.kill()
        process.wait()
