"""A terminal whose keys come one by one, and whose screen is ours: given back whatever
happens.

Signals are noted and looked at in ``read``, so nothing is torn in the middle: Ctrl-C and
SIGTERM end the loop, and are raised again when the terminal is as it was; Ctrl-Z gives
it to the shell until ``fg``. Only SIGKILL leaves it as it is (``reset`` helps).
"""

import codecs
import contextlib
import errno
import os
import select
import signal
import termios
from collections import deque
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self

from supervisor.cli.views.run_screen import USUAL_SIZE
from supervisor.cli.views.top.spans import PLAIN

TAKE = "\x1b[?1049h"
"""The alternate screen (xterm), which leaves what was printed before as it is."""
MODES = "\x1b[?25l\x1b[?7l\x1b[2J"
"""No cursor, no wrapping at the right end, an empty screen."""
GIVE_BACK = f"{PLAIN}\x1b[?7h\x1b[?25h"
LEAVE = "\x1b[?1049l"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
NOTED = (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
PART_BYTES = 1024
LAST_WORD_SECONDS = 1.0
"""So long a terminal that takes nothing is waited for at the end."""


class RawTerminal:
    """Between its entry and its exit the terminal is ours."""

    def __init__(self, *, keys: int = 0, screen: int = 1) -> None:
        """Descriptors of the terminal: what is typed, and what is shown."""
        self._keys, self._screen = keys, screen
        self.ended_by: int | None = None
        """The signal that asks for the end; None: none does."""
        self.gone = False
        """Nobody is there any more to look."""
        self._ours = False
        self._noted: deque[int] = deque()
        self._handlers: dict[int, Any] = {}
        self._shown: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._keys)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in NOTED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                self._handlers[number] = signal.signal(number, self._note)
        try:
            self._take()
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        if self.ended_by is not None:
            signal.raise_signal(self.ended_by)

    @property
    def over(self) -> bool:
        """Whether there is an end to be made of it."""
        return self.gone or self.ended_by is not None

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._screen)
        except OSError:
            return USUAL_SIZE
        return (columns, rows) if columns and rows else USUAL_SIZE

    def wake(self) -> None:
        """Let ``read`` return; from any thread."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: it is over
            os.write(self._wake, b"\0")

    def read(self, seconds: float | None) -> str:
        """What was typed. Empty where nothing came for so long, or something else did."""
        ready, _, _ = select.select([self._keys, self._woken], [], [], seconds)
        if self._woken in ready:
            self._mind_signals()
        if self._keys not in ready or self.over:
            return ""
        try:
            content = os.read(self._keys, PART_BYTES)
        except OSError:
            content = b""
        self.gone = self.gone or not content
        return self._decoder.decode(content)

    def draw(self, lines: Sequence[str]) -> None:
        """Put ``lines`` there; only those that are others than before are written."""
        if not self._ours:
            return
        before, parts = self._shown, list[str]()
        for row, line in enumerate(lines):
            if row >= len(before) or before[row] != line:
                # Erased before it is written: in a full line the cursor stands on the last.
                parts.append(f"\x1b[{row + 1};1H{PLAIN}\x1b[K{line}{PLAIN}")
        if len(lines) < len(before):
            parts.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = list(lines)
        if not self._write("".join(parts)):
            self._shown = []

    def redraw(self) -> None:
        """The screen is not what was drawn: the next time all of it is."""
        self._shown = []
        self._write("\x1b[2J")

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted.append(number)

    def _mind_signals(self) -> None:
        self._drain()
        while self._noted:
            number = self._noted.popleft()
            if number in ENDING:
                self.ended_by = self.ended_by or number
            elif number == signal.SIGTSTP:
                self._suspend()
            elif number == signal.SIGCONT:
                self._go_on()
            else:
                self.redraw()

    def _suspend(self) -> None:
        """Until ``fg``. By the signal itself: where no shell could ever say ``fg`` the
        kernel does not stop us (setpgid(2), orphaned groups)."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)
        self._take()

    def _take(self) -> None:
        self._make_raw()
        self._shown = []
        if self._ours:
            self._write(TAKE + MODES)

    def _go_on(self) -> None:
        """SIGCONT: the shell may have made the terminal its own meanwhile."""
        self._make_raw()
        self._shown = []
        if self._ours:
            self._write(MODES)

    def _make_raw(self) -> None:
        """Keys one by one and unseen; Ctrl-C and Ctrl-Z stay signals, Ctrl-S holds
        nothing up."""
        done = False
        while not (done or self._ends()):
            try:
                wanted = termios.tcgetattr(self._keys)
                wanted[0] &= ~termios.IXON
                wanted[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
                wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
                termios.tcsetattr(self._keys, termios.TCSANOW, wanted)
            except termios.error as error:
                # From the background it stops us (SIGTTOU) until ``fg``, or the end.
                self.gone = self.gone or error.args[0] != errno.EINTR
            else:
                done = self._ours = True

    def _ends(self) -> bool:
        """Whether it is over, or will be as soon as signals are looked at."""
        return self.over or not set(ENDING).isdisjoint(self._noted)

    def _give_back(self) -> None:
        ours, self._ours = self._ours, False
        if not ours or not self._in_front():
            return
        with contextlib.suppress(termios.error):  # it is gone
            termios.tcflow(self._screen, termios.TCOON)
        _, rows = self.size()
        self._write(f"{GIVE_BACK}\x1b[{rows};1H{LEAVE}", last=True)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._keys, termios.TCSANOW, self._before)

    def _in_front(self) -> bool:
        """Whether the shell has not taken the terminal from us."""
        try:
            return os.tcgetpgrp(self._keys) == os.getpgrp()
        except OSError:  # not the terminal that controls us
            return True

    def _restore(self) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        wake, self._wake = self._wake, -1
        os.close(wake)
        os.close(self._woken)

    def _write(self, text: str, *, last: bool = False) -> bool:
        """Whether the terminal has taken it. One that takes nothing is waited for until a
        signal comes; ``last``: for a while, whatever comes."""
        left = text.encode(errors="replace")
        while left and not self.gone:
            if not self._has_room(last=last):
                return False
            try:
                left = left[os.write(self._screen, left[:PART_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError:
                self.gone = True
        return not self.gone

    def _has_room(self, *, last: bool) -> bool:
        watched = [] if last else [self._woken]
        seconds = LAST_WORD_SECONDS if last else None
        while True:
            woken, room, _ = select.select(watched, [self._screen], [], seconds)
            if room or last:
                return bool(room)
            if self._noted:
                return False
            if woken:
                self._drain()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, PART_BYTES):
                pass
