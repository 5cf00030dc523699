"""Attempts without a process: they end as they are told to, and leave the files that
real ones leave. For many attempts in little time, and for specs that nobody may run."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from supervisor.core.diagnosis.systemd_result import UnitEnd
from supervisor.core.jobs.spec import Spec
from supervisor.daemon.launcher_factory import LauncherFactory, UserRuntime
from supervisor.daemon.managed_job import SchedulerError
from supervisor.host.launch.launcher import (
    LaunchedAttempt,
    Launcher,
    LaunchError,
    Name,
)
from supervisor.host.launch.standby_process import StandbyProcess
from supervisor.host.process.marker_scan import Carrier, MarkerScan
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.snapshot_catalog import newest_step
from supervisor.wire import event_file
from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import Directive
from supervisor.wire.page import PageWriter, Phase
from supervisor.wire.paths import AttemptPaths, RunPaths
from supervisor.wire.records.end_records import ExitRecord

STEPS = 7
"""What an attempt gets done before it ends."""


class Patient(MarkerScan):
    """Waits until it is known who carries a marker: where a clock is wound by hand, to
    ask again a moment later would come at another time on a busy machine."""

    @override
    def carriers(
        self, marker: bytes, *, wait_seconds: float = 60.0
    ) -> dict[int, Carrier] | None:
        return super().carriers(marker, wait_seconds=wait_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """How an attempt ends if nobody asks it to."""

    looks: int = 1
    """How often it is looked at before."""
    finishes: bool = True
    """False: SIGKILL ends it, after a snapshot."""
    saves: bool = True
    """False: there was none."""


@dataclass(kw_only=True)
class QuickAttempt(LaunchedAttempt):
    """One attempt. Its files are whole as soon as it ends."""

    snapshots: Path
    fate: Fate
    clock: Clock
    step: int
    looked: int = 0
    asked: bool = False
    over: bool = False

    @property
    @override
    def descriptor(self) -> int | None:
        return None

    @override
    def started(self) -> bool:
        return True

    @override
    def ended(self) -> bool:
        self.looked += 1
        if not self.over and (self.asked or self.looked > self.fate.looks):
            self._end()
        return self.over

    def begin(self, *, restored: int) -> None:
        """What it leaves at its start."""
        self.paths.root.mkdir(parents=True)
        self._tell(RecordKind.FIT_BEGAN, fit=0, batch=32)
        self._tell(RecordKind.RESTORED, step=restored, fit=0, epoch=0)
        self._tell(RecordKind.FIRST_STEP, step=restored + 1, seconds=0.1)
        self._show()

    def _end(self) -> None:
        if self.fate.saves:
            self._save()
        if self.asked:
            self._tell(RecordKind.DRAINED, step=self.step, snapshot=None)
            self._leave(code=75)
        elif self.fate.finishes:
            self._tell(RecordKind.FINISHED, exit_code=0)
            self._leave(code=0)
        else:
            self._leave(number=9)

    def _save(self) -> None:
        """A snapshot, as far as the supervisor looks at one, in place of the older."""
        self.snapshots.mkdir(parents=True, exist_ok=True)
        for older in self.snapshots.glob("*-*"):
            older.rmdir()
        (self.snapshots / f"{self.step}-{self.step}").mkdir()
        self._tell(RecordKind.SNAPSHOT, tier="durable", step=self.step, bytes=1)

    def _tell(self, kind: str, **fields: Any) -> None:
        line = event_file.encode(event_file.Record(kind, self._ns(), fields))
        with self.paths.events.open("ab") as file:
            file.write(line)

    def _show(self) -> None:
        PageWriter(self.paths.page).set(
            phase=Phase.TRAINING,
            step=self.step,
            heartbeat_ns=self._ns(),
            step_seconds_sum=STEPS * 0.1,
            step_counts=(0, 0, 0, 0, STEPS, 0, 0, 0, 0, 0, 0, 0),
        )

    def _ns(self) -> int:
        return int(self.clock.now() * 1e9)

    def _leave(self, *, code: int | None = None, number: int | None = None) -> None:
        record = ExitRecord(
            pid=1,
            exit_code=code,
            signal=number,
            core_dumped=False,
            max_rss_bytes=1,
            user_seconds=0.0,
            system_seconds=0.0,
            started_ns=self._ns(),
            ended_ns=self._ns(),
            asked_to_stop=self.asked,
            swept=0,
            unkillable=(),
        )
        self.paths.exit.write_text(json.dumps(record.to_json()))
        self.over = True

    @override
    def ask_drain(self) -> None:
        self.asked = True

    @override
    def ask_stacks(self) -> bool:
        return False

    @override
    def kill(self) -> None:
        if not self.over:
            self._leave(number=9)

    @override
    def oom_kills(self) -> int | None:
        return None

    @override
    def close(self) -> None:
        """Nothing is held."""


WITHOUT = "there are no processes here"


@dataclass(kw_only=True)
class QuickLauncher(Launcher):
    """Starts them."""

    fate: Callable[[Directive], Fate]
    clock: Clock = field(default_factory=Clock)
    launched: int = 0

    @override
    def launch(
        self, spec: Spec, directive: Directive, *, paths: AttemptPaths
    ) -> QuickAttempt:
        self.launched += 1
        snapshots = Path(directive.snapshot_directory)
        before = newest_step(snapshots) or 0
        attempt = QuickAttempt(
            paths=paths,
            snapshots=snapshots,
            fate=self.fate(directive),
            clock=self.clock,
            step=before + STEPS,
        )
        attempt.begin(restored=before)
        return attempt

    @override
    def room_bytes(self) -> int | None:
        return None

    @override
    def spare(self, run_id: str, number: int, *, spared: bool) -> None:
        """Nothing is ever left."""

    @override
    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> StandbyProcess:
        raise LaunchError(WITHOUT)

    @override
    def hand_over(
        self,
        standby: StandbyProcess,
        spec: Spec,
        directive: Directive,
        *,
        paths: AttemptPaths,
    ) -> QuickAttempt:
        raise LaunchError(WITHOUT)

    @override
    def objection(self, spec: Spec) -> str | None:
        return None

    @override
    def adopt(self, name: Name, *, paths: AttemptPaths) -> QuickAttempt | None:
        return None

    @override
    def told(self, name: Name, *, paths: AttemptPaths) -> UnitEnd | None:
        return None

    @override
    def left(self, run_id: str, *, job: str) -> str | None:
        return None

    @override
    def release(
        self, memory: Path, snapshots: Path, *, job: str, finished: bool
    ) -> str | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickHouse(LauncherFactory):
    """Where one user has them."""

    user: str
    launcher: QuickLauncher
    place: str | None = None

    @property
    @override
    def about(self) -> str:
        return "attempts without a process"

    @override
    def runtime_of(self, user: str) -> UserRuntime:
        if user != self.user:
            message = f"{user} has no place for jobs here"
            raise SchedulerError(message)
        return UserRuntime(launcher=self.launcher, place=self.place)
