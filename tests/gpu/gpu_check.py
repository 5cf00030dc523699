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

from tests.gpu.chosen_gpu import GIB, ChosenGpu

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).with_name("scripts")
COMMAND = (sys.executable, "-c", "from supervisor.cli.entry import main; main()")
NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_SECONDS = 300.0
"""A process of a check takes no longer."""
MOST_SAID = 4000
"""Characters of a command's output that a report keeps, where something is wrong."""


class SkippedError(Exception):
    """A check cannot be done here, which is no fault of anything; the message says why."""


@dataclass(slots=True)
class CheckFacts:
    """What a check saw. It holds where no problem was found."""

    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    problems: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])
    """Parts that could not be done here, and why, in a sentence each."""

    def expect(self, holds: object, sentence: str) -> None:
        """``sentence`` is a problem unless it ``holds``."""
        if not holds:
            self.problems.append(sentence)


class CheckPlace:
    """A directory of one check, in which scripts and commands run."""

    def __init__(self, directory: Path, gpu: ChosenGpu) -> None:
        """``directory`` is made; ``gpu`` is as it was before the first check."""
        self.directory = directory
        self.gpu = gpu
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
        """What a command prints with ``--json``. Raises RuntimeError with what it said."""
        told = [*COMMAND, verb, "--state-dir", str(self.state), *arguments, "--json"]
        # Warnings of packages are on the other stream.
        done = self._run(told, NOTHING, errors=subprocess.PIPE)
        try:
            return json.loads(done.stdout)
        except ValueError:
            said = f"{done.stdout}{done.stderr}"[-MOST_SAID:]
            message = f"{verb} --json ended with {done.returncode} and said: {said!r}"
            raise RuntimeError(message) from None

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
        self,
        command: list[str],
        more: Mapping[str, str],
        *,
        errors: int = subprocess.STDOUT,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
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
        """Another process holds so much of the GPU; its process id. Raises SkippedError
        where so much cannot be had."""
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
                raise SkippedError(message)
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
    needs: tuple[str, ...] = ()
    """Frameworks, by the names that they are imported by."""
    alone: bool = True
    """It looks at, or takes, all memory of the GPU: nothing else may run beside it."""
    takes: bool = True
    """It takes memory that others on the GPU may need, where it is to be alone."""
    room_bytes: int = 0
    """What must be free; 0: it needs none, nor a GPU that is whole."""
    faults: bool = False
    """A kernel of it faults: under MPS that may end programs of others."""

    def lacks(self, gpu: ChosenGpu, *, anyway: bool) -> str:
        """Why it cannot be done on ``gpu``, or would harm others; empty: it can.
        ``anyway``: never mind others."""
        if self.room_bytes and gpu.parted:
            return "the GPU is parted (MIG): what is free of its parts is not told"
        if gpu.free_bytes < self.room_bytes:
            needs, free = self.room_bytes / GIB, gpu.free_bytes / GIB
            return f"it needs {needs:.0f} GiB of the GPU, and {free:.1f} GiB are free"
        if anyway:
            return ""
        if self.alone and self.takes and gpu.crowd:
            return (
                f"it takes memory that others may need, and {gpu.crowd} (--anyway: yet)"
            )
        if self.faults and gpu.mps:
            return (
                "a kernel of it faults, and MPS runs here: that may end programs of others "
                "(--anyway: yet)"
            )
        return ""


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


def judged(check: GpuCheck, place: Path, gpu: ChosenGpu, lacks: str) -> CheckResult:
    """Run ``check`` in ``place``; ``lacks``: why it cannot be, empty if it can."""
    if lacks:
        return CheckResult(check=check, seen=CheckFacts(), seconds=0.0, skipped=lacks)
    began = time.monotonic()
    try:
        seen = check.run(CheckPlace(place, gpu))
    except SkippedError as error:
        return CheckResult(
            check=check, seen=CheckFacts(), seconds=0.0, skipped=str(error)
        )
    except Exception as error:  # noqa: BLE001  # whatever it is, it is in the report
        seen = CheckFacts(problems=[f"{type(error).__name__}: {error}"[:MOST_SAID]])
    return CheckResult(check=check, seen=seen, seconds=time.monotonic() - began)
