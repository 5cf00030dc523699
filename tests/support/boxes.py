"""A daemon without systemd, in a directory of its own, and commands that speak to it."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError
from tests.support.command import COMMAND, marked
from tests.support.command_fork import answered

PATIENCE = 60.0


@dataclass
class BoxUnderTest:
    """The daemon and its state directory."""

    directory: Path
    config: str = ""
    environment: dict[str, str] | None = None
    """Of the daemon; None: ours."""
    program: str = COMMAND
    """What is run."""
    daemons: list[subprocess.Popen[str]] = field(
        default_factory=list[subprocess.Popen[str]]
    )

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.directory / "state"

    @property
    def jobs(self) -> Path:
        """Where job files lie."""
        return self.state / "jobs.d"

    def begin(self) -> subprocess.Popen[str]:
        """Start a daemon and wait until it answers."""
        config = self.directory / "trainwarden.toml"
        config.write_text(f'state_dir = "{self.state}"\n{self.config}')
        daemon = subprocess.Popen(
            [self.program, "daemon", "--config", str(config)],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.daemons.append(daemon)
        until(lambda: self.answers() or daemon.poll() is not None)
        return daemon

    def answers(self) -> bool:
        """Whether a daemon does."""
        try:
            self.client.get("/v1/openapi.json")
        except NoDaemonError:
            return False
        return True

    def end(self, daemon: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
        """End a daemon; what it said."""
        daemon.send_signal(number)
        said, _ = daemon.communicate(timeout=PATIENCE)
        return said

    def script(self, text: str, name: str = "train.py") -> Path:
        """A script with this text."""
        path = self.directory / name
        path.write_text(text)
        return path

    def command(self, verb: str, *rest: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        command = [self.program, verb, "--state-dir", str(self.state), *map(str, rest)]
        ours = self.program == COMMAND
        done = answered(command, self.directory, int(PATIENCE)) if ours else None
        return done or subprocess.run(
            command,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def do(self, verb: str, *rest: str | Path) -> str:
        """A command that has to succeed; what it said."""
        done = self.command(verb, *rest)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, verb: str, *rest: str | Path) -> Any:
        """What a command prints with ``--json``."""
        return json.loads(self.do(verb, "--json", *rest))

    @property
    def client(self) -> Client:
        """What speaks to the daemon."""
        return Client(self.state / "control.sock")

    def job(self, name: str = "train") -> dict[str, Any]:
        """One job as the daemon shows it."""
        found: dict[str, Any] = self.client.get(f"/v1/jobs/{name}")
        return found

    def until(
        self, wanted: Callable[[dict[str, Any]], object], name: str = "train"
    ) -> dict[str, Any]:
        """Wait until a job is as wanted."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(RefusedError, NoDaemonError):  # not there yet
                if wanted(found := self.job(name)):
                    return found
            if time.monotonic() > deadline:
                pytest.fail(f"it never came: {self.job(name)}")
            time.sleep(0.05)


def until(wanted: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not wanted():
        if time.monotonic() > deadline:
            pytest.fail("it never came")
        time.sleep(0.05)


@contextlib.contextmanager
def box_in(directory: Path) -> Generator[BoxUnderTest]:
    """A box; nothing of it is left afterwards."""
    box = BoxUnderTest(directory)
    try:
        yield box
    finally:
        for daemon in box.daemons:
            if daemon.poll() is None:
                daemon.kill()
            said, _ = daemon.communicate(timeout=PATIENCE)
            print(said)  # noqa: T201  # shown with a test that fails
        for pid in marked(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not marked(directory))


def alive(pid: int) -> bool:
    """Whether there is a process of that number."""
    return Path(f"/proc/{pid}").exists()
