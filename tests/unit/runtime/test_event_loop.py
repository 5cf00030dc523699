"""The event loop: what wakes it, and when it ends."""

import os
import signal
from collections.abc import Collection, Generator
from dataclasses import dataclass, field

import pytest

from supervisor.runtime.event_loop import loop, wakeups

USR1, USR2 = signal.SIGUSR1, signal.SIGUSR2


@pytest.fixture(name="pipe")
def a_pipe() -> Generator[tuple[int, int]]:
    """A reader and a writer."""
    ends = os.pipe2(os.O_CLOEXEC)
    yield ends
    for end in ends:
        os.close(end)


@dataclass(kw_only=True)
class LoopTurns:
    """Work that is done after so many turns."""

    count: int
    watched: list[int] = field(default_factory=list[int])
    seconds: float = 60.0
    readable: list[set[int]] = field(default_factory=list[set[int]])

    @property
    def done(self) -> bool:
        """After its last turn."""
        return len(self.readable) == self.count

    def descriptors(self) -> list[int]:
        """What it watches."""
        return self.watched

    def wait_seconds(self) -> float:
        """Long, unless told else."""
        return self.seconds

    def turn(self, ready: Collection[int]) -> None:
        """Remember it."""
        self.readable.append(set(ready))


def test_it_turns_when_it_is_time_or_something_is_readable(
    pipe: tuple[int, int],
) -> None:
    """It is told what is readable, and stays so until somebody reads it."""
    reader, writer = pipe
    with wakeups({}) as wakeup:
        idle = LoopTurns(count=2, watched=[reader], seconds=0.0)
        loop(idle, wakeup)
        assert idle.readable == [set(), set()]
        os.write(writer, b"x")
        busy = LoopTurns(count=2, watched=[reader])
        loop(busy, wakeup)
        assert busy.readable == [{reader}, {reader}]


def test_what_is_done_takes_no_turn() -> None:
    """Nothing is waited for then."""
    with wakeups({}) as wakeup:
        work = LoopTurns(count=0)
        loop(work, wakeup)
        assert work.readable == []


def test_a_signal_wakes_it_once() -> None:
    """Also one that came before it waited; each goes to its own handler."""
    came: list[str] = []
    handlers = {USR1: lambda: came.append("one"), USR2: lambda: came.append("two")}
    with wakeups(handlers) as wakeup:
        os.kill(os.getpid(), USR2)
        os.kill(os.getpid(), USR1)
        work = LoopTurns(count=1)
        loop(work, wakeup)
        assert work.readable == [{wakeup}]
        idle = LoopTurns(count=1, seconds=0.0)
        loop(idle, wakeup)
        assert idle.readable == [set()]
    assert sorted(came) == ["one", "two"]


def test_handlers_are_put_back() -> None:
    """Whoever had the signals before has them again."""
    before = signal.getsignal(USR1)
    with wakeups({USR1: lambda: None}):
        assert signal.getsignal(USR1) is not before
    assert signal.getsignal(USR1) is before
