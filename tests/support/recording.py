"""A real terminal to run commands in, and to look at: tmux, on a server of its own."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.command import PATIENCE
from tests.support.recording_pictures import picture


@dataclass
class Recording:
    """A terminal of so many columns and rows, in ``directory``."""

    directory: Path
    columns: int = 100
    rows: int = 20
    environment: tuple[str, ...] = ()
    """``NAME=value`` of the shell."""
    frames: list[str] = field(default_factory=list[str])
    """Screens that were looked at."""

    def __post_init__(self) -> None:
        program = shutil.which("tmux")
        if program is None:
            if os.environ.get("CI"):
                pytest.fail("CI must have tmux")
            pytest.skip("terminals are recorded with tmux (Debian: apt install tmux)")
        self._program = program
        self._ask(
            "-f", os.devnull, "new-session", "-d", "-s", "terminal",
            "-x", str(self.columns), "-y", str(self.rows), "-c", str(self.directory),
            "env", "PS1=$ ", *self.environment, "bash", "--norc", "--noprofile",
        )  # fmt: skip
        self.until(lambda screen: "$" in screen)

    def _ask(self, *words: str) -> str:
        socket = str(self.directory / "tmux.sock")
        done = subprocess.run(
            [self._program, "-S", socket, *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        """Type these, by the names that tmux has for keys."""
        self._ask("send-keys", "-t", "terminal", *keys)

    def run(self, command: Sequence[str]) -> None:
        """Type a command, and Enter."""
        self.type(" ".join(command), "Enter")

    def resize(self, columns: int, rows: int) -> None:
        """Make it as large."""
        size = ("-x", str(columns), "-y", str(rows))
        self._ask("resize-window", "-t", "terminal", *size)

    def screen(self, *, history: bool = False) -> str:
        """What it shows now; ``history``: with what has scrolled off."""
        before = ("-S", "-1000") if history else ()
        return self._ask("capture-pane", "-p", "-t", "terminal", *before).rstrip("\n")

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Look until it is as wanted; that screen, which is kept."""
        deadline = time.monotonic() + PATIENCE
        while not wanted(screen := self.screen()):
            if time.monotonic() > deadline:
                pytest.fail(f"never came; the terminal shows\n{screen}")
            time.sleep(0.1)
        self.frames.append(screen)
        return screen

    def picture(self, name: str, title: str) -> None:
        """Draw what it shows now into ``TRAINWARDEN_PICTURES``, a directory, if it is
        set (``make pictures``)."""
        into = os.environ.get("TRAINWARDEN_PICTURES")
        if into is not None:
            painted = self._ask("capture-pane", "-e", "-p", "-J", "-t", "terminal")
            painted = painted.rstrip("\n").replace(str(self.directory), "~/digits")
            painted = painted.replace(sys.prefix, "~/.venv")
            drawn = picture(painted, columns=self.columns, title=title)
            (Path(into) / f"{name}.svg").write_text(drawn)

    def close(self) -> None:
        """End it, and write down what was seen: into ``TRAINWARDEN_RECORDINGS``, a
        directory, if it is set."""
        self._ask("kill-server")
        into = os.environ.get("TRAINWARDEN_RECORDINGS")
        if into is not None:
            rule = f"\n{'-' * self.columns}\n"
            name = Path(self.directory).name + ".txt"
            (Path(into) / name).write_text(rule.join(self.frames) + "\n")
