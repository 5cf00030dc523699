"""The real command, in real processes, with a state directory of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.commands.status_commands import stored_jobs
from tests.support.command_fork import answered

COMMAND = str(Path(sys.executable).parent / "trainwarden")
PATIENCE = 180.0


@dataclass
class Trainwarden:
    """The command with a state directory of its own."""

    directory: Path
    state: Path
    started: list[subprocess.Popen[str]] = field(
        default_factory=list[subprocess.Popen[str]]
    )
    program: str = COMMAND
    """What is run."""

    def script(self, text: str, name: str = "train.py") -> Path:
        """A script with this text."""
        path = self.directory / name
        path.write_text(text)
        return path

    def command(self, *arguments: str | Path, **options: Any) -> list[str]:
        """The command line; ``state`` replaces the state directory."""
        verb, *rest = map(str, arguments)
        state = options.get("state", self.state)
        return [self.program, verb, "--state-dir", str(state), *rest]

    def __call__(
        self, *arguments: str | Path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        command = self.command(*arguments, **options)
        ours = self.program == COMMAND
        done = answered(command, self.directory, int(PATIENCE)) if ours else None
        return done or subprocess.run(
            command,
            cwd=self.directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start it; it is ended with the test."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.started.append(process)
        return process

    def json(self, *arguments: str) -> Any:
        """What a command prints with ``--json``."""
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def status(self, job: str = "train") -> dict[str, Any] | None:
        """The status of a job, as ``status --json`` has it; None: there is none yet.

        Read in here: who waits would else take the processor from whom it waits for.
        """
        found = stored_jobs(self.state) if self.state.exists() else []
        return next((item for item in found if item["job"] == job), None)

    def until(
        self, wanted: Callable[[dict[str, Any]], bool], *, job: str = "train"
    ) -> dict[str, Any]:
        """Wait until the status of a job is as wanted."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = self.status(job)
            if found is not None and wanted(found):
                return found
            time.sleep(0.05)
        pytest.fail(f"never came: {self.status(job)}")


def marked(directory: Path) -> list[int]:
    """Processes whose attempt lies below ``directory``: not in one whose name only
    begins like it, which a test beside this one may have."""
    wanted = f"TRAINWARDEN_DIRECTIVE={directory}/".encode()
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if wanted in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except OSError:
                continue
    return found
