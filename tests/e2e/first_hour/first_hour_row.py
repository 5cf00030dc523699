"""A row of the first hour: what is typed, what stands around it, what is to be answered."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.lock import acquire
from tests.support.small_disk import fill, mounted
from tests.support.stranger import (
    Arrange,
    Place,
)

HISTORY = "TRAINWARDEN_TESTS_HISTORY"
"""Where the test keeps a state directory in which ``train`` finished and ``bad`` failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstHourRow:
    """One thing that they try."""

    name: str
    line: str
    """As typed, after ``trainwarden``; with ``by_shell`` the whole line. ``<HERE>``, ``<STATE>``
    and ``<PORT>`` (one that is taken) are filled in."""
    code: int = 2
    says: str
    """A regular expression for the sentence."""
    do: str = ""
    """... and for what to do next. Empty: all is well, and there is nothing to do."""
    given: tuple[Arrange, ...] = ()
    names: tuple[str, ...] = ()
    """What is wrong, by its name: one of these is said. Empty: a word of the line is."""
    starts: bool = False
    """Something may begin, and leave traces: a run, at least."""
    by_shell: bool = False
    """As a shell does it, and with a Python that starts."""
    terminal: bool = False
    """On a terminal."""
    listed: bool = False
    """A list of commands is the answer."""
    slow: bool = False
    """It trains, or takes long: ``make test-slow``."""


def ran(place: Place) -> None:
    """One job has finished, and another one failed (incident 1)."""
    shutil.copytree(os.environ[HISTORY], place.state)


def running(place: Place) -> None:
    """Somebody runs ``train`` just now."""
    lock = place.state / "jobs" / "train" / "lock"
    lock.parent.mkdir(parents=True)
    held = acquire(lock)
    assert held is not None
    place.stack.callback(held.release)


def small(size: str, name: str, *options: str) -> Arrange:
    """A file system of its own, from the working directory."""

    def arrange(place: Place) -> None:
        disk = place.stack.enter_context(mounted(place.here / name, size))
        for option in options:
            if option == "full":
                fill(disk / "fill")
            else:
                remount(disk, option)

    return arrange


def remount(disk: Path, option: str) -> None:
    """Mount it otherwise."""
    mount = shutil.which("mount")
    assert mount is not None
    subprocess.run([mount, "-o", f"remount,{option}", disk], check=True)


def socket_left(place: Place) -> None:
    """A daemon died, and its socket is still there."""
    place.state.mkdir(parents=True)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(place.state / "control.sock"))
    left.close()


def ledger_from_the_future(place: Place) -> None:
    """A newer version has been here."""
    place.state.mkdir(parents=True)
    path = place.state / "ledger.sqlite"
    Ledger(path).close()
    content = bytearray(path.read_bytes())
    content[60:64] = (999).to_bytes(4, "big")  # user_version: sqlite.org/fileformat
    path.write_bytes(content)


def in_state(name: str, content: str) -> Arrange:
    """A file in the state directory."""

    def arrange(place: Place) -> None:
        place.state.mkdir(parents=True, exist_ok=True)
        (place.state / name).write_text(content)

    return arrange


def deeper(parts: int) -> Arrange:
    """``TRAINWARDEN_STATE_DIR`` has a very long path."""

    def arrange(place: Place) -> None:
        place.environment["TRAINWARDEN_STATE_DIR"] = str(
            place.root.joinpath(*["a-rather-long-name"] * parts)
        )

    return arrange


def deep_directory(place: Place) -> None:
    """It is there."""
    Path(place.environment["TRAINWARDEN_STATE_DIR"]).mkdir(parents=True)


OPTION = r"there is no option"
HELP = r"`trainwarden[ a-z-]* --help`"
JOBS = r"see `trainwarden status`"


@contextlib.contextmanager
def taken_port() -> Generator[int]:
    """A port of loopback on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])
