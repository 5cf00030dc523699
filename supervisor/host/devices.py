"""What a run asks about the GPUs of the box and their driver; nobody waits for it."""

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.core.placement import GpuReading
from supervisor.host.ending import Driver, NoDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The questions, each answered by what was seen last."""

    gpus: Callable[[], tuple[GpuReading, ...]]
    """The GPUs of the box; empty: nothing is known of them."""
    faults: Driver
    """What befell an attempt and its GPUs."""
    stuck: Callable[[], str | None]
    """Why the GPU driver will not answer before a reboot; None: it does, or might."""
    silent: Callable[[], str | None]
    """Why nothing is known of the GPUs; None: something is, or the box has none."""


def _unasked() -> None:
    """Nobody asks the driver."""


NOBODY_ASKS = Devices(
    gpus=tuple[GpuReading, ...], faults=NoDriver(), stuck=_unasked, silent=_unasked
)
"""Where nobody watches the GPUs."""
