"""The pending exit of an attempt: it is over, and not all is known of its end.

Its processes are gone and its files are read; only the GPU driver may still have
something to say (``core.diagnosis.driver_wait``). Nobody waits here: ``known`` is asked again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from supervisor.core.diagnosis.driver_wait import awaited
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.lifecycle.events import Exited
from supervisor.host.gpu.gpu_access import DriverReporter


@dataclass(slots=True, kw_only=True)
class PendingExit:
    """The end of one attempt."""

    exited: Exited
    """As its files tell it."""
    at: float
    """When it was seen, in monotonic seconds."""
    driver: DriverReporter
    gpus: Callable[[], tuple[Gpu, ...]]
    pids: frozenset[int] = field(default_factory=frozenset[int])
    """Every process of the run that was ever seen."""

    def known(self, *, now: float) -> Exited | None:
        """The end with what driver and kernel say of it; None: not yet.

        To be asked no more once it has answered.
        """
        evidence = self.exited.evidence
        word = self.driver.word(self.pids)
        if awaited(evidence, word, ended=self.at, now=now):
            return None
        faults = self.driver(self.pids)
        told = replace(
            evidence,
            gpus=self.gpus(),
            kernel=faults.kernel,
            faulty_gpus=faults.gpus,
            uses_gpu=word.used or not word.answers,
        )
        return replace(self.exited, evidence=told)
