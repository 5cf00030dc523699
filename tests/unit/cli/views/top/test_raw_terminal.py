"""A terminal is given back as it was, whatever happens. Each is a real one."""

import os
import pty
import signal
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from supervisor.cli.views.top.raw_terminal import RawTerminal


@dataclass(frozen=True)
class TerminalPair:
    """A terminal, and who sits before it."""

    person: int
    program: int

    def modes(self) -> list[Any]:
        """How it is set."""
        return termios.tcgetattr(self.program)

    def shown(self, end: str) -> str:
        """What has been written to it, up to ``end``."""
        written = b""
        while not written.endswith(end.encode()):
            written += os.read(self.person, 1)
        return written.decode()

    def opened(self) -> RawTerminal:
        """The program's view of it."""
        return RawTerminal(keys=self.program, screen=self.program)


@pytest.fixture
def pair() -> Iterator[TerminalPair]:
    """One that nobody else has."""
    made = TerminalPair(*pty.openpty())
    yield made
    os.close(made.person)
    os.close(made.program)


def test_keys_come_one_by_one(pair: TerminalPair) -> None:
    """Without an Enter, and without an echo."""
    with pair.opened() as terminal:
        assert "\x1b[?1049h" in pair.shown("\x1b[2J")
        os.write(pair.person, "é".encode()[:1])
        assert terminal.read(None) == ""
        os.write(pair.person, "é".encode()[1:] + b"\x13q")
        assert terminal.read(None) == "é\x13q"
        assert terminal.read(0) == ""
    assert pair.shown("\x1b[?1049l").endswith("\x1b[?7h\x1b[?25h\x1b[24;1H\x1b[?1049l")


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_it_is_as_it_was(pair: TerminalPair, error: type[BaseException] | None) -> None:
    """However it ends; so are the signals."""
    before = pair.modes(), signal.getsignal(signal.SIGTERM)
    try:
        with pair.opened():
            assert pair.modes() != before[0]
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt, SystemExit) as raised:
        assert type(raised) is error  # noqa: PT017  # it has to come through
    assert (pair.modes(), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_until_it_is(pair: TerminalPair, number: int) -> None:
    """Then it does what it would have done."""
    modes = pair.modes()
    found: list[bool] = []

    def received(_number: int, _frame: FrameType | None) -> None:
        found.append(pair.modes() == modes)

    before = signal.signal(number, received)
    try:
        with pair.opened() as terminal:
            os.kill(os.getpid(), number)
            assert terminal.read(None) == ""
            assert terminal.over
            assert not found
    finally:
        signal.signal(number, before)
    assert found == [True]


def test_an_end_that_comes_with_another_signal(pair: TerminalPair) -> None:
    """As after SIGSTOP from elsewhere: it is given back all the same."""
    modes = pair.modes()
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        with pair.opened() as terminal:
            for number in (signal.SIGCONT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            terminal.read(None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert pair.modes() == modes


def test_only_what_is_new_is_written(pair: TerminalPair) -> None:
    """All of it after another size."""
    with pair.opened() as terminal:
        terminal.draw(["one", "two", "three"])
        assert "one" in pair.shown("three")
        terminal.draw(["one", "TWO"])
        written = pair.shown("\x1b[3;1H\x1b[J")
        assert "TWO" in written
        assert "one" not in written
        os.kill(os.getpid(), signal.SIGWINCH)
        terminal.read(None)
        terminal.draw(["one", "TWO"])
        assert "one" in pair.shown("TWO")


def test_another_thread_wakes_it(pair: TerminalPair) -> None:
    """And waking it before or after does no harm."""
    terminal = pair.opened()
    with terminal:
        terminal.wake()
        assert terminal.read(None) == ""
        assert not terminal.over
    terminal.wake()


def test_nobody_sits_there_any_more() -> None:
    """It is over, and nothing fails."""
    pair = TerminalPair(*pty.openpty())
    with pair.opened() as terminal:
        os.close(pair.person)
        assert terminal.read(None) == ""
        assert terminal.gone
        terminal.draw(["one"])
    os.close(pair.program)
