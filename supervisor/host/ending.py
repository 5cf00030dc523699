"""An attempt that is over, until all is known of its end.

Its processes are gone and its files are read; only the GPU driver may still have
something to say (``core.driver_word``). Nobody waits here: ``known`` is asked again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Protocol

from supervisor.core.driver_word import NO_WORD, DriverWord, awaited
from supervisor.core.events import Exited
from supervisor.core.faults import Faults
from supervisor.core.placement import GpuReading


class Driver(Protocol):
    """Who listens to the GPU driver and the kernel; it never waits for them."""

    def word(self, pids: Collection[int]) -> DriverWord:
        """What is to be expected about the attempt that had these processes."""
        ...

    def __call__(self, pids: Collection[int]) -> Faults:
        """What befell these processes and their GPUs since the last attempt ended."""
        ...


class NoDriver:
    """Nobody listens."""

    def word(self, pids: Collection[int]) -> DriverWord:
        """Nothing is to be expected."""
        del pids
        return NO_WORD

    def __call__(self, pids: Collection[int]) -> Faults:
        """Nothing was heard."""
        del pids
        return Faults()


@dataclass(slots=True, kw_only=True)
class Ending:
    """The end of one attempt."""

    exited: Exited
    """As its files tell it."""
    at: float
    """When it was seen, in monotonic seconds."""
    driver: Driver
    gpus: Callable[[], tuple[GpuReading, ...]]
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
