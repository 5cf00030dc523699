"""One check of a real GPU: what it needs, where it runs, and what it saw."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).with_name("scripts")
COMMAND = (sys.executable, "-c", "from supervisor.cli.entry import main; main()")
GIB = 2**30
NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_SECONDS = 300.0
"""A process of a check takes no longer."""
MOST_SAID = 4000
"""Characters of a command's output that a report keeps, where something is wrong."""


@dataclass(slots=True)
class CheckFacts:
    """What a check saw. It holds where no problem was found."""

    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    problems: list[str] = field(default_factory=list[str])

    def expect(self, holds: object, sentence: str) -> None:
        """``sentence`` is a problem unless it ``holds``."""
        if not holds:
            self.problems.append(sentence)


class CheckPlace:
    """A directory of one check, in which scripts and commands run."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is made."""
        self.directory = directory
        self.state = directory / "state"
        directory.mkdir(parents=True)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Of a process in here: it finds the repository, and caches what it compiles."""
        path = os.pathsep.join(
            part for part in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if part
        )
        return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}

    def python(
        self, *arguments: str | Path, more: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[str]:
        """Run Python to its end; ``more``: environment variables."""
        return self._run([sys.executable, *map(str, arguments)], more)

    def script(self, name: str) -> Path:
        """That script of ours."""
        return SCRIPTS / f"{name}.py"

    def trainwarden(
        self, verb: str, *arguments: str | Path, more: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, with a state directory of this check."""
        told = [*COMMAND, verb, "--state-dir", str(self.state), *map(str, arguments)]
        return self._run(told, more)

    def json(self, verb: str, *arguments: str) -> Any:
        """What a command prints with ``--json``. Raises ValueError."""
        return json.loads(self.trainwarden(verb, *arguments, "--json").stdout)

    def incidents(self) -> list[dict[str, Any]]:
        """What went wrong so far."""
        found: list[dict[str, Any]] = (
            self.json("incidents") if self.state.exists() else []
        )
        return found

    def status(self) -> dict[str, Any]:
        """Where its one job is; empty: there is none yet."""
        jobs: list[dict[str, Any]] = self.json("status") if self.state.exists() else []
        return jobs[0] if jobs else {}

    def _run(
        self, command: list[str], more: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS,
            check=False,
        )

    @contextlib.contextmanager
    def started(
        self, verb: str, *arguments: str | Path, more: Mapping[str, str]
    ) -> Generator["StartedCommand"]:
        """Start the command; it is ended with the context."""
        told = [*COMMAND, verb, "--state-dir", str(self.state), *map(str, arguments)]
        said = self.directory / "said.log"
        with said.open("w") as output:
            process = subprocess.Popen(
                told,
                cwd=self.directory,
                env=self.environment(more),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield StartedCommand(process, said)
        finally:
            process.terminate()
            process.wait(60)

    def released(self, pid: int) -> None:
        """End the process that ``holding`` began."""
        os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def holding(self, nbytes: int) -> Generator[int]:
        """Another process holds so much of the first GPU; its process id."""
        told = [sys.executable, str(self.script("hold")), str(nbytes)]
        process = subprocess.Popen(
            told,
            env=self.environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            if said != "holds":
                message = f"{nbytes} bytes could not be held: {said}"
                raise RuntimeError(message)
            yield process.pid
        finally:
            process.kill()
            process.wait()


class StartedCommand:
    """A command that was started."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        """``said``: the file of its output."""
        self._process = process
        self._said = said

    def ended(self, seconds: float) -> bool:
        """Wait for its end, at most so long; whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def done(self) -> subprocess.CompletedProcess[str]:
        """How it ended, and what it said; -1: it did not."""
        code = self._process.poll()
        text = self._said.read_text(errors="replace")
        return subprocess.CompletedProcess([], -1 if code is None else code, text)


def until(true: Callable[[], bool], seconds: float, *, every: float = 0.1) -> None:
    """Wait for it, at most so long."""
    ends = time.monotonic() + seconds
    while not true() and time.monotonic() < ends:
        time.sleep(every)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCheck:
    """One line of the report."""

    name: str
    what: str
    """It shows, in half a sentence."""
    run: Callable[[CheckPlace], CheckFacts]
    needs: str = ""
    """A framework, by the name that it is imported by."""
    alone: bool = True
    """It looks at, or takes, all memory of the GPU: nothing else may run beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What became of a check."""

    check: GpuCheck
    seen: CheckFacts
    seconds: float
    skipped: str = ""

    @property
    def mark(self) -> str:
        """One word."""
        if self.skipped:
            return "skipped"
        return "FAILS" if self.seen.problems else "holds"


def judged(check: GpuCheck, place: Path, lacks: str) -> CheckResult:
    """Run ``check`` in ``place``; ``lacks``: why it cannot be, empty if it can."""
    if lacks:
        return CheckResult(check=check, seen=CheckFacts(), seconds=0.0, skipped=lacks)
    began = time.monotonic()
    try:
        seen = check.run(CheckPlace(place))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is in the report
        seen = CheckFacts(problems=[f"{type(error).__name__}: {error}"[:MOST_SAID]])
    return CheckResult(check=check, seen=seen, seconds=time.monotonic() - began)
