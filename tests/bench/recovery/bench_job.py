"""A job of a contestant: started, disturbed, followed and ended."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.bench.recovery.contestants import Contestant
from tests.bench.recovery.told_steps import NewStep, ToldStep, first_new, parse

POLL_SECONDS = 0.02
END_SECONDS = 120.0
WAITS = "a standby waits"
WORD = re.compile(r"\w")


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within it a SIGTERM to the benchmark ends what it started, too."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def benched_in(kept: Path | None) -> Iterator[Path]:
    """Where jobs lie: a new directory that is left there, or one of a moment. A SIGTERM
    to the benchmark ends what it started."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_by_sigterm())
        if kept is None:
            yield Path(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            kept.mkdir(parents=True)
            yield kept.resolve()


class NothingCameError(Exception):
    """A contestant did not do in time what it was waited for."""


class CommittedFault(NamedTuple):
    """When it was, and whom it left without a process."""

    at: float
    """Monotonic seconds."""
    killed: int | None
    """None: its process may go on."""


class BenchJob:
    """One job, started again for each round from what it has saved."""

    def __init__(
        self, place: Path, contestant: Contestant, model: str, *, patience: float
    ) -> None:
        (place / "work").mkdir(parents=True)
        if contestant.spec is not None:
            (place / "spec.toml").write_text(contestant.spec)
        self.contestant, self._place, self._patience = contestant, place, patience
        self._command = contestant.command(place, model)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> Path:
        """The state directory, where it is ours."""
        return self._place / "state"

    def start(self) -> None:
        """As a group of processes of its own; what it says goes to a file."""
        with (self._place / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._place
                / "work",  # nothing that restarts put back is written here
                env=self.contestant.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def told(self) -> list[ToldStep]:
        """All of its steps so far."""
        try:
            return parse((self._place / "told").read_text())
        except FileNotFoundError:
            return []

    def until_trained(self, steps: int) -> None:
        """Until a process that was not there before has done so many steps."""
        pids = {one.pid for one in self.told()}
        self._until(
            lambda: len([o for o in self.told() if o.pid not in pids]) >= steps,
            f"{steps} steps",
        )

    def until_standby(self) -> None:
        """Until the next attempt has imported."""
        self._until(self._stands_by, "a standby")

    def kill(self) -> CommittedFault:
        """SIGKILL to what trains."""
        pid, at = self.told()[-1].pid, time.monotonic()
        if not self._is_ours(pid):
            raise ProcessLookupError(pid)
        os.kill(pid, signal.SIGKILL)
        return CommittedFault(at, pid)

    def ask_for(self, fault: str) -> None:
        """The script commits it after its next step."""
        new = self._place / "fault.new"
        new.write_text(fault)
        new.rename(self._place / "fault")

    def commit(self, fault: str) -> CommittedFault:
        """``fault`` in the script itself, or by a kill."""
        if fault == "kill":
            return self.kill()
        before = len(self._faults())
        self.ask_for(fault)
        self._until(lambda: len(self._faults()) > before, f"the fault {fault}")
        return CommittedFault(self._faults()[-1].at, None)

    def until_new_step(self, fault: CommittedFault) -> NewStep:
        """The first one that was not done before."""
        self._until(lambda: self._new(fault) is not None, "a new step")
        found = self._new(fault)
        assert found is not None
        return found

    def stop(self) -> None:
        """End it and all that it started: first as a person does."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._end_trained()
        self._process = None

    def last_words(self) -> str:
        """The last line that it said, but for rules of a table."""
        lines = (self._place / "output").read_text(errors="replace").splitlines()
        said = (line.strip() for line in reversed(lines) if WORD.search(line))
        return next(said, "it said nothing")

    def _end_trained(self) -> None:
        """A launcher may have put training into a session of its own. The next contestant
        is not to train beside what ends."""
        for pid in {one.pid for one in self.told()}:
            while self._is_ours(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                time.sleep(POLL_SECONDS)

    def _is_ours(self, pid: int) -> bool:
        """Whether that is still a process that trains for this job."""
        work = str(self._place / "work")
        try:
            return os.readlink(f"/proc/{pid}/cwd") == work  # noqa: PTH115  # not resolved
        except OSError:
            return False

    def _new(self, fault: CommittedFault) -> NewStep | None:
        return first_new(self.told(), since=fault.at, killed=fault.killed)

    def _faults(self) -> list[ToldStep]:
        return [one for one in self.told() if one.fault]

    def _stands_by(self) -> bool:
        told = self.state.glob("jobs/*/run-*/standby.json")
        return any(WAITS in json.loads(one.read_text())["sentence"] for one in told)

    def _until(self, came: Callable[[], bool], what: str) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._patience
        while not came():
            if self._process.poll() is not None:
                message = f"it ended, {self._process.returncode}: {self.last_words()}"
                raise NothingCameError(message)
            if time.monotonic() > deadline:
                message = f"{what} did not come in {self._patience:.0f} s: {self.last_words()}"
                raise NothingCameError(message)
            time.sleep(POLL_SECONDS)
