"""One row of the table, for real: ``trainwarden run`` on a script that misbehaves.

Checked are the exit code, every incident, what is said, the bits of the weights, the
size of the log, and that nothing is left behind: no process, no shared memory, no
cgroup, no file system in use.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.machine import MIB, CannotError, ChaosMachine, prepared, thaw
from tests.chaos.rows import ChaosRow, Crash, ExpectedEnd, MachineNeed
from tests.support.command import Trainwarden, marked

MISBEHAVE = Path(__file__).parents[2] / "trainers" / "reference" / "misbehave.py"
PATIENCE = 240.0
"""Seconds for one run of the command; none needs more than some tens."""
LEFT_SECONDS = 40.0
FULL_SECONDS = 15.0
"""How long a disk stays full."""
DRAINED, GAVE_UP = 75, 1
SPEC = """
script = {script}
name = "chaos"
args = {args}
[restart]
back_off = "50ms"
standby = {standby}
[snapshots]
every = "5steps"
{memory}
{more}
"""


@dataclass
class ChaosResult:
    """What came of a row."""

    row: ChaosRow
    problems: list[str] = field(default_factory=list[str])
    skipped: str = ""
    incidents: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    output: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether all came as it has to."""
        return not self.problems

    @property
    def seen(self) -> str:
        """The causes and remedies in their order."""
        pairs = [f"{one['cause']}/{one['remedy']['kind']}" for one in self.incidents]
        counted: list[str] = []
        for pair in pairs:
            if counted and counted[-1].partition(" x")[0] == pair:
                _, _, many = counted[-1].partition(" x")
                counted[-1] = f"{pair} x{int(many or 1) + 1}"
            else:
                counted.append(pair)
        return ", ".join(counted) or "no incident"


@dataclass
class References:
    """The undisturbed runs, by plain Python; each is made once."""

    directory: Path
    known: dict[object, str] = field(default_factory=dict[object, str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def result(self, row: ChaosRow) -> str:
        """What the script of ``row`` ends with when nothing happens to it."""
        key = (row.training, row.environment)
        with self.lock:
            if key not in self.known:
                self.known[key] = self._run(row, self.directory / str(len(self.known)))
            return self.known[key]

    def _run(self, row: ChaosRow, directory: Path) -> str:
        directory.mkdir(parents=True)
        subprocess.run(
            [sys.executable, MISBEHAVE, "nothing", *_of_training(row)],
            cwd=directory,
            env={**os.environ, **dict(row.environment)},
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        return (directory / "result").read_text()


def _of_training(row: ChaosRow) -> list[str]:
    return [*row.training, *(("--times", "-1") if "--records" in row.training else ())]


@dataclass
class ChaosTrial:
    """One row in a directory of its own."""

    row: ChaosRow
    directory: Path
    references: References

    def judge(self) -> ChaosResult:
        """Run it and compare; nothing is raised for what does not hold."""
        result = ChaosResult(self.row)
        began = time.monotonic()
        self.directory.mkdir(parents=True)
        try:
            with prepared(self.row, self.directory) as machine:
                self._run(machine, result)
            result.problems += machine.problems
        except CannotError as reason:
            result.skipped = str(reason)
        result.seconds = time.monotonic() - began
        return result

    def _run(self, machine: ChaosMachine, result: ChaosResult) -> None:
        row = self.row
        command = Trainwarden(self.directory, self._state(machine))
        spec = self.directory / "job.toml"
        spec.write_text(self._spec(machine))
        codes: list[int] = []
        for _ in range(row.again + 1):
            with self._relief(command, machine):
                codes.append(self._command(command, spec, machine, result))
        if command.state.exists():
            result.incidents = command.json("incidents")
        thaw(machine)
        result.problems += [
            *self._codes(codes),
            *unexpected(row.crashes, result.incidents),
            *self._words(result.output),
            *self._bits(),
            *self._logs(command.state),
            *_left(self.directory),
        ]

    def _state(self, machine: ChaosMachine) -> Path:
        """On the small file system, where that is what fills up."""
        fills_up = self.row.frees and self.row.needs is MachineNeed.MOUNT
        small = machine.path if fills_up and not self.row.apart else None
        return (small or self.directory) / "state"

    def _spec(self, machine: ChaosMachine) -> str:
        path = str(machine.path or "")
        args = [self.row.fault, *self.row.options]
        memory = f'memory = "{machine.memory}"'
        more = self.row.spec.replace("{path}", path)
        if "memory =" in more:
            memory = ""
        return SPEC.format(
            script=json.dumps(str(MISBEHAVE)),
            args=json.dumps([one.replace("{path}", path) for one in args]),
            standby=json.dumps(self.row.standby),
            memory=memory,
            more=more,
        )

    def _command(
        self,
        command: Trainwarden,
        spec: Path,
        machine: ChaosMachine,
        result: ChaosResult,
    ) -> int:
        """Run it to its end; its exit code."""
        process = subprocess.Popen(
            command.command("run", "--spec", spec, *self.row.run),
            cwd=self.directory,
            env={**os.environ, **dict(self.row.environment), **machine.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if machine.join is not None:
            (machine.join / "cgroup.procs").write_text(str(process.pid))
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            thaw(machine)
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            output, _ = process.communicate()
            result.problems.append(f"it had not ended after {PATIENCE:.0f} s")
        result.output += output.decode(errors="replace")
        return process.returncode

    @contextlib.contextmanager
    def _relief(self, command: Trainwarden, machine: ChaosMachine) -> Generator[None]:
        """Take away what is in the way, once it was noticed."""
        over = threading.Event()

        def relieve() -> None:
            while not over.wait(0.5) and not self._noticed(command, machine):
                pass
            over.wait(2.0)
            if machine.nvml is not None:
                machine.nvml.set({"0.processes": None})
            elif self.row.needs is MachineNeed.FREEZER:
                thaw(machine)
            elif machine.path is not None:
                (machine.path / "checkpoint.bin").unlink(missing_ok=True)

        helper = threading.Thread(target=relieve)
        if self.row.frees:
            helper.start()
        try:
            yield
        finally:
            over.set()
            if helper.is_alive():
                helper.join()

    def _noticed(self, command: Trainwarden, machine: ChaosMachine) -> bool:
        """Whether the fault can be seen: on a full disk no incident is written down."""
        if self.row.needs is MachineNeed.MOUNT and machine.path is not None:
            found = os.statvfs(machine.path)
            full = found.f_bavail * found.f_frsize < MIB
            if full:
                time.sleep(FULL_SECONDS)
            return full
        return command.state.exists() and bool(command.json("incidents"))

    # --- what is checked --------------------------------------------------------------

    def _codes(self, codes: list[int]) -> Iterator[str]:
        *before, last = codes
        if any(code not in (DRAINED, -signal.SIGKILL) for code in before):
            yield f"exit codes {codes}, and {self.row.again} runs more were expected"
        wanted = GAVE_UP if self.row.end is ExpectedEnd.STOPPED else 0
        if last != wanted:
            yield f"exit code {last}, not {wanted}"

    def _words(self, output: str) -> Iterator[str]:
        if re.search(r'File "[^"]*/supervisor/', output):
            yield "a traceback of the supervisor's own"
        if not re.search(self.row.sentence, output):
            yield f"it does not say {self.row.sentence!r}"

    def _bits(self) -> Iterator[str]:
        if self.row.end is not ExpectedEnd.IDENTICAL:
            return
        left = self.directory / "result"
        if not left.exists():
            yield "there is no result"
        elif left.read_text() != self.references.result(self.row):
            yield "the weights are not those of an undisturbed run"

    def _logs(self, state: Path) -> Iterator[str]:
        most = self.row.log_at_most_mib
        for log in state.rglob("output.log") if most is not None else ():
            taken = log.stat().st_blocks * 512 / MIB
            if most is not None and taken > most:
                yield f"the log takes {taken:.0f} MiB of disk, at most {most} are allowed"
            head = log.read_bytes()[:4096] if taken < 1024 else b""
            if log.parent.name == "0001" and b"the flood begins" not in head:
                yield "the head of the log is gone"


def unexpected(wanted: tuple[Crash, ...], incidents: list[dict[str, Any]]) -> list[str]:
    """Where the incidents differ from what has to come; empty: nowhere."""
    problems: list[str] = []
    left = list(incidents)
    for crash in wanted:
        if crash.maybe and not (left and _is(crash, left[0])):
            continue
        if not left or not _is(crash, left[0]):
            found = "nothing" if not left else _named(left[0])
            problems.append(f"{found} instead of {crash.cause}/{crash.remedy}")
            return problems
        text = " ".join(reason["text"] for reason in left[0]["because"])
        if not re.search(crash.quotes, text):
            problems.append(
                f"{crash.cause} does not quote {crash.quotes!r}: {text[:200]}"
            )
        left.pop(0)
        while crash.many and left and _is(crash, left[0]):
            left.pop(0)
    return problems + [f"{_named(one)} too many" for one in left]


def _is(crash: Crash, incident: dict[str, Any]) -> bool:
    return (
        crash.cause == incident["cause"]
        and incident["remedy"]["kind"] in crash.remedy.split("|")
        and crash.in_place == (incident["happened"] == "recovered")
    )


def _named(incident: dict[str, Any]) -> str:
    return f"{incident['cause']}/{incident['remedy']['kind']}"


def _left(directory: Path) -> Iterator[str]:
    """Processes of the run that are still there."""
    deadline = time.monotonic() + LEFT_SECONDS
    left = marked(directory)
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = marked(directory)
    if left:
        yield f"{len(left)} processes were left behind"
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
