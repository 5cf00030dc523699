"""The GPUs, for a command that asks once and can wait for the driver."""

import contextlib
import time

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.host.exporter.machine_monitor import readings_of
from supervisor.host.gpu.gpu_monitor import GpuMonitor, GpuView

DRIVER_SECONDS = 5.0
"""So long somebody who asks once waits for the driver."""
LOOK_SECONDS = 0.05


def first_view(*, seconds: float) -> GpuView:
    """What a probe of our own says first; waits for the driver, so long at most."""
    with contextlib.closing(GpuMonitor(say=lambda _text: None)) as watch:
        watch.start()
        return Retrying(
            retry=retry_if_result(lambda view: not (view.sample or view.problem)),
            wait=wait_fixed(LOOK_SECONDS),
            stop=stop_after_delay(seconds),
            retry_error_callback=lambda _state: watch.latest(),
        )(watch.latest)


def gpus_once() -> tuple[Gpu, ...]:
    """The GPUs of this box, asked for by a probe of our own; empty: it says nothing.

    Waits for the driver, ``DRIVER_SECONDS`` at most.
    """
    view = first_view(seconds=DRIVER_SECONDS)
    return readings_of(view.fresh(time.monotonic()))
