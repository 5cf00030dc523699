"""The access of a run to the GPUs of the box and their driver; nobody waits for it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from supervisor.core.diagnosis.driver_wait import NO_WORD, DriverWait
from supervisor.core.diagnosis.kernel.driver_errors import DriverErrors
from supervisor.core.gpu.gpu_readings import Gpu


class DriverReporter:
    """Who listens to the GPU driver and the kernel, and never waits for them; here
    nobody listens."""

    def word(self, pids: Collection[int]) -> DriverWait:
        """What is to be expected about the attempt that had these processes."""
        del pids
        return NO_WORD

    def __call__(self, pids: Collection[int]) -> DriverErrors:
        """What befell these processes and their GPUs since the last attempt ended."""
        del pids
        return DriverErrors()


def _unasked() -> None:
    """Nobody asks the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """The questions, each answered by what was seen last."""

    gpus: Callable[[], tuple[Gpu, ...]] = tuple[Gpu, ...]
    """The GPUs of the box; empty: nothing is known of them."""
    faults: DriverReporter = field(default_factory=DriverReporter)
    """What befell an attempt and its GPUs."""
    stuck: Callable[[], str | None] = _unasked
    """Why the GPU driver will not answer before a reboot; None: it does, or might."""
    silent: Callable[[], str | None] = _unasked
    """Why nothing is known of the GPUs; None: something is, or the box has none."""


NOBODY_ASKS = GpuAccess()
"""Where nobody watches the GPUs."""
