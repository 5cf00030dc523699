"""Main memory of workers: measured by a thread of its own, which is not waited for."""

import threading
import time
from collections.abc import Callable, Iterable

import pytest

from supervisor.host.memory import child_memory
from supervisor.host.memory.child_memory import (
    LEAST_SECONDS,
    MOST_SECONDS,
    WorkerMemory,
    seconds_between,
)

PATIENCE = 60.0
ONE = frozenset({1})


class Kernel:
    """Stands in for one that walks pages: as slowly as it is told."""

    def __init__(self) -> None:
        self.held = 1000
        self.asked = 0
        self.may_answer = threading.Event()

    def private_bytes(self, pids: Iterable[int]) -> int:
        """After it may answer."""
        del pids
        self.asked += 1
        assert self.may_answer.wait(PATIENCE)
        return self.held


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """In the place of the real one, which ``test_memory_watch`` asks."""
    made = Kernel()
    monkeypatch.setattr(child_memory, "private_bytes", made.private_bytes)
    return made


def until(true: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_without_workers_nobody_is_asked(kernel: Kernel) -> None:
    """Most trainings have none."""
    assert WorkerMemory().of(frozenset(), now=0.0) == 0
    assert kernel.asked == 0


def test_a_kernel_that_does_not_answer_holds_up_nobody(kernel: Kernel) -> None:
    """Nothing is known until it has, and it is asked once."""
    memory = WorkerMemory()
    for now in (0.0, LEAST_SECONDS, 1000.0):
        assert memory.of(ONE, now=now) is None
    kernel.may_answer.set()
    until(lambda: memory.of(ONE, now=1.0) == 1000)
    assert kernel.asked == 1


def test_it_is_measured_now_and_then(kernel: Kernel) -> None:
    """Between two measurements the last figure stands."""
    kernel.may_answer.set()
    memory = WorkerMemory()
    until(lambda: memory.of(ONE, now=0.0) == 1000)
    kernel.held = 2000
    assert memory.of(ONE, now=LEAST_SECONDS - 0.1) == 1000
    assert kernel.asked == 1
    until(lambda: memory.of(ONE, now=1e6) == 2000)
    assert kernel.asked == 2


def test_what_costs_much_is_measured_seldom() -> None:
    """50 ms of walking pages are worth 25 s of rest; more than a minute nothing is."""
    assert seconds_between(0.001) == LEAST_SECONDS
    assert seconds_between(0.05) == 25.0
    assert seconds_between(2.0) == MOST_SECONDS


def test_other_workers_are_measured_soon(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What some held that have ended is not theirs who came after."""

    def seldom(_cost: float) -> float:
        return MOST_SECONDS

    monkeypatch.setattr(child_memory, "seconds_between", seldom)
    kernel.may_answer.set()
    memory = WorkerMemory()
    until(lambda: memory.of(ONE, now=0.0) == 1000)
    kernel.held = 500
    others = frozenset({1, 2})
    assert memory.of(others, now=LEAST_SECONDS - 0.1) == 1000
    assert memory.of(ONE, now=MOST_SECONDS - 0.1) == 1000
    assert kernel.asked == 1
    until(lambda: memory.of(others, now=LEAST_SECONDS) == 500)
    assert kernel.asked == 2
