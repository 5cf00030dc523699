"""Where somebody who has only read the README sits, and what they get to read.

A home of their own, a directory with ``train.py`` in it, and nothing that ever ran; an
arrangement changes that. What they type is a fork of ``command_process``, or, where a
shell or the start of Python matters, a process from nothing.
"""

import os
import pty
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.command import COMMAND, PATIENCE
from tests.support.command_fork import CommandFork

SECONDS = 15
"""Then a command line that answers nothing is killed."""
NOBODY = 65534


@dataclass
class Place:
    """Where they are."""

    root: Path
    """All that they may change lies below it."""
    stack: ExitStack
    environment: dict[str, str] = field(default_factory=dict[str, str])
    user: int | None = None
    """None: whoever runs the tests."""

    def __post_init__(self) -> None:
        for made in (self.home, self.here):
            made.mkdir()
        (self.here / "train.py").write_text("print('trained')\n")
        binaries = Path(COMMAND).parent
        self.environment |= {
            "HOME": str(self.home),
            "PATH": f"{binaries}:{os.environ.get('PATH', os.defpath)}",
            "LC_ALL": "C.UTF-8",
        }

    @property
    def home(self) -> Path:
        """Of theirs."""
        return self.root / "home"

    @property
    def here(self) -> Path:
        """The working directory."""
        return self.root / "here"

    @property
    def state(self) -> Path:
        """Where their runs are kept, if they say nothing else."""
        return self.home / ".local" / "state" / "trainwarden"

    def file(self, name: str, content: str | bytes, *, mode: int = 0o644) -> Path:
        """A file, from the working directory."""
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    def written(self, text: str) -> str:
        """``text`` with the places in it filled in."""
        for name, path in (("HERE", self.here), ("STATE", self.state)):
            text = text.replace(f"<{name}>", str(path))
        return text

    def contents(self) -> dict[str, int]:
        """Every file below, and when it was last written. A lock is taken to be asked for,
        and what is known of an interpreter is kept in a cache."""
        found = [self.root, *self.root.rglob("*")]
        caches = {self.home / ".cache", self.home / ".keras"}
        return {
            str(one): 0 if one.name == "lock" else one.lstat().st_mtime_ns
            for one in found
            if one != self.home and caches.isdisjoint({one, *one.parents})
        }


Arrange = Callable[[Place], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What they get to read."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All of it."""
        return self.out + self.err


def typed(words: list[str], place: Place, fork: CommandFork) -> Answer:
    """One command line to its end."""
    done = fork.run(
        words, cwd=place.here, environment=place.environment, user=place.user,
        seconds=SECONDS,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr)


def from_shell(line: str, place: Place) -> Answer:
    """As bash does it; ``trainwarden`` is on the PATH."""
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", f"set -o pipefail; {line}"],
        cwd=place.here,
        env=place.environment,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
        user=place.user,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def on_terminal(line: str, place: Place) -> Answer:
    """On a terminal of 80 columns: what it gets, bells and colours and all."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, True)
    said: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                content = os.read(ours, 65536)
            except OSError:  # nobody has the other end any more
                return
            if not content:
                return
            said.append(content)

    reader = threading.Thread(target=listen)
    reader.start()
    try:
        done = subprocess.run(
            [COMMAND, *shlex.split(line)],
            cwd=place.here, env=place.environment, check=False, timeout=PATIENCE,
            stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
    finally:
        os.close(theirs)
        reader.join(PATIENCE)
        os.close(ours)
    text = b"".join(said).decode(errors="replace").replace("\r\n", "\n")
    return Answer(done.returncode, text, "")


def needs_root() -> None:
    """Skip where nobody else can be become, and nothing mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")


def file(name: str, content: str | bytes, *, mode: int = 0o644) -> Arrange:
    """There is such a file; ``<HERE>`` and ``<STATE>`` in it are filled in."""

    def arrange(place: Place) -> None:
        text = place.written(content) if isinstance(content, str) else content
        place.file(name, text, mode=mode)

    return arrange


def spec(text: str) -> Arrange:
    """``job.toml``."""
    return file("job.toml", text)


def directory(name: str) -> Arrange:
    """There is such a directory."""

    def arrange(place: Place) -> None:
        (place.here / name).mkdir(parents=True)

    return arrange


def link(name: str, to: str) -> Arrange:
    """A symbolic link, which may lead nowhere."""
    return lambda place: (place.here / name).symlink_to(to)


def pipe(name: str) -> Arrange:
    """A named pipe that nobody writes to."""
    return lambda place: os.mkfifo(place.here / name)


def env(**variables: str) -> Arrange:
    """Environment variables, with the places in them filled in."""

    def arrange(place: Place) -> None:
        named = {name: place.written(text) for name, text in variables.items()}
        place.environment.update(named)

    return arrange


def without(*names: str) -> Arrange:
    """These environment variables are not set."""

    def arrange(place: Place) -> None:
        for name in names:
            place.environment.pop(name, None)

    return arrange


def nobody(place: Place) -> None:
    """They are not root, and what there is, is theirs."""
    as_user(NOBODY)(place)


def as_user(number: int) -> Arrange:
    """They are the user of that number, who need not have a name."""

    def arrange(place: Place) -> None:
        needs_root()
        for one in (place.root, *place.root.rglob("*")):
            os.chown(one, number, number, follow_symlinks=False)
        place.user = number

    return arrange


def of_root(name: str, mode: int) -> Arrange:
    """Root's, with this mode; from the working directory."""

    def arrange(place: Place) -> None:
        os.chown(place.here / name, 0, 0)
        (place.here / name).chmod(mode)

    return arrange
