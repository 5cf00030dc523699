"""One run, supervised: next event or deadline → step → perform effects.

Everything is decided in ``core.lifecycle.table``; this module listens and acts. ``advance``
never waits, so that one process can drive many runs; ``supervise`` is the foreground
loop over a single one.
"""

import signal
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import IncidentKind, RemedyKind
from supervisor.core.jobs.accounting.mtbf import mean_seconds_between_failures
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.resume_decision import goes_on_with_other_data
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.disk_alarm import DiskTrouble, DiskUse
from supervisor.core.lifecycle.effects import (
    AnswerFailure,
    AskDrain,
    CheckGate,
    Effect,
    End,
    Kill,
    Launch,
    Quarantine,
    RecordIncident,
    ReviseAdvice,
    Say,
    TakeStacks,
    UpdateIncident,
)
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    Event,
    Exited,
    GateHeld,
    ProgressReported,
    RestartDue,
    SpawnFailed,
    StepFailed,
)
from supervisor.core.lifecycle.run_state import RunPhase, RunState, taken_over
from supervisor.core.lifecycle.table import step
from supervisor.core.remediation.history import Unpromised, weakest
from supervisor.core.remediation.overrides import Awaited, Overrides
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.host.gpu.gpu_access import NOBODY_ASKS, GpuAccess
from supervisor.host.launch.launcher import LaunchedAttempt, Launcher, LaunchError
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.service import local_disks
from supervisor.host.service.clock import Clock
from supervisor.runtime.alerts.disk_notifications import DiskNotifications, TroubleAt
from supervisor.runtime.alerts.run_notifications import RunNotifications
from supervisor.runtime.attempts.attempt_monitor import (
    CALM_SECONDS,
    SHOWN_SECONDS,
    TICK_SECONDS,
    AttemptMonitor,
)
from supervisor.runtime.attempts.directive_builder import (
    NOTHING_PLANNED,
    PlannedEnds,
    incident_sentence,
    make_directive,
    memory_of,
)
from supervisor.runtime.attempts.standby_attempt import Standby
from supervisor.runtime.event_loop import loop, wakeups
from supervisor.runtime.launch_gate import gate
from supervisor.runtime.recording.progress_recorder import ProgressRecorder
from supervisor.runtime.recording.run_recorder import RunRecorder
from supervisor.runtime.status_builder import with_run_peak
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import RunPaths
from supervisor.wire.reasons import Changed

FAILURES = frozenset({IncidentKind.ENDED, IncidentKind.RECOVERED})
"""Incidents that are failures, of an attempt or of a step of it."""


@dataclass(kw_only=True)
class Supervisor:
    """One run, from its first attempt to its end."""

    row: RunRow
    spec: Spec
    run: RunState
    paths: RunPaths
    ledger: Ledger
    launcher: Launcher
    population: ProcessTree
    """Of the machine; one for all runs of a daemon."""
    clock: Clock
    say: Notifier
    show: Callable[[JobStatus], None] | None
    """Told how things are after each ``advance``; None: who wants to know asks."""
    accept_changes: bool = False
    """Go on although the training data changed."""
    by_hand: bool = False
    """A person let an earlier run go on."""
    changed_modules: Changed = Changed.AS_KEPT
    """For the next attempt alone: those after it import what it did."""
    planned: PlannedEnds = NOTHING_PLANNED
    devices: GpuAccess = NOBODY_ASKS
    notifications: RunNotifications | None = None
    """Who is told of the run; None: nobody."""
    disks: DiskNotifications | None = None
    """Told which disks cannot be written; None: nobody is."""
    ballast: Ballast | None = None
    """As ``RunRecorder`` has it."""
    exit_code: int | None = None
    """What the command ends with; None while the run goes on."""
    recorder: RunRecorder = field(init=False)
    progress: ProgressRecorder = field(init=False)
    standby: Standby = field(init=False)
    _following: AttemptMonitor = field(init=False)
    _looked_at: float | None = None
    """When ``advance`` last began (monotonic seconds)."""
    _inbox: deque[Event] = field(default_factory=deque[Event])
    _incidents: Counter[tuple[Cause, RemedyKind]] = field(
        default_factory=Counter[tuple[Cause, RemedyKind]]
    )

    def __post_init__(self) -> None:
        self.recorder = RunRecorder(
            row=self.row,
            ledger=self.ledger,
            clock=self.clock,
            say=self.say,
            ballast=self.ballast,
        )
        archive = RunArchive(self.ledger)
        self.progress = ProgressRecorder(
            run=self.row.id,
            archive=archive,
            clock=self.clock,
            cpu_limit_bytes=self.spec.memory.cpu,
        )
        self._following = AttemptMonitor(
            row=self.row,
            spec=self.spec,
            paths=self.paths,
            archive=archive,
            launcher=self.launcher,
            clock=self.clock,
            post=self.post,
            seen=self.progress.see,
            population=self.population,
            usual_seconds=TICK_SECONDS if self.show is None else SHOWN_SECONDS,
            calm_seconds=CALM_SECONDS if self.show is None else SHOWN_SECONDS,
        )

        self.standby = Standby(
            run_id=self.row.run_id,
            spec=self.spec,
            paths=self.paths,
            launcher=self.launcher,
            environments=self.population.environments,
            clock=self.clock,
            say=self.say,
        )

    def supervise(self) -> int:
        """Run until the end, in the foreground; the exit code of the command."""
        self.begin()
        with wakeups(self._drains_by_signal()) as wakeup:
            loop(self, wakeup)
            self.finish()  # a signal that comes now has nothing more to end
        assert self.exit_code is not None  # noqa: S101  # it is done
        return self.exit_code

    def _drains_by_signal(self) -> dict[signal.Signals, Callable[[], None]]:
        """SIGHUP stays ignored where it is (``nohup``); else a closed terminal drains.
        Only Ctrl-C is a person's, who may ask again and mean it."""
        asked = {
            signal.SIGTERM: DrainRequested("SIGTERM", repeats=True),
            signal.SIGINT: DrainRequested("Ctrl-C", sooner="Ctrl-C again"),
        }
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            closed = DrainRequested("the terminal was closed", repeats=True)
            asked[signal.SIGHUP] = closed
        return {number: partial(self.post, event) for number, event in asked.items()}

    def begin(self) -> None:
        """Before the first ``advance``: what earlier attempts left."""
        self._incidents = self.ledger.counts(self.row.job)
        self._following.begin(self.run)
        self.standby.begin()

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self.exit_code is not None

    def turn(self, _ready: Collection[int]) -> None:
        """A turn of the loop."""
        self.advance()

    def post(self, event: Event) -> None:
        """Something happened outside, such as a signal: taken in by ``advance``."""
        self._inbox.append(event)

    def descriptors(self) -> list[int]:
        """What becomes readable when ``advance`` has something to do."""
        return self._following.descriptors

    @property
    def pressing(self) -> bool:
        """Whether there is more to do than one ``advance`` did."""
        return self._has_news or self._looked_at is None or self._following.behind

    @property
    def _has_news(self) -> bool:
        return bool(self._inbox) and self.exit_code is None

    def wait_seconds(self) -> float:
        """How long ``advance`` may be put off while no descriptor is readable."""
        if self._has_news or self._looked_at is None:
            return 0.0
        due = self._following.due_after(self._looked_at)
        deadline = self.run.deadline
        if deadline is not None and not self._following.over:
            due = min(due, deadline)
        return max(due - self.clock.now(), 0.0)

    def advance(self) -> None:
        """Take in what is new, and do what follows from it; never waits."""
        try:
            self._listen()
        finally:
            self.heed()  # of what came before something could not be read, too
        if self.show is not None:
            self.show(self.status())

    def heed(self) -> None:
        """Do what follows from what was posted; never waits."""
        while self._inbox and self.exit_code is None:
            self._happen(self._inbox.popleft())

    def finish(self) -> None:
        """After the last ``advance``: the run has ended, and leaves nothing behind."""
        self.recorder.finish(self.run.state)
        self.standby.finish()
        self._release_memory()
        if self.disks is not None:
            self.disks.see(self.row.job, list(self._disk_troubles()))
            self.disks.ended(self.row.job)

    def _release_memory(self) -> None:
        """What lies in memory goes to disk, or is of no more use."""
        memory = memory_of(self.row, self.spec)
        if memory is None or self.launcher.left(self.row.run_id, job=self.row.job):
            return
        problem = self.launcher.release(
            memory,
            self.paths.snapshots,
            job=self.row.job,
            finished=self.run.state is JobState.FINISHED,
        )
        if problem is not None:
            self.say(problem, level=LogLevel.WARNING)

    def resume_after(self, because: str) -> None:
        """The attempt is drained only to start again, as an earlier supervisor wanted:
        to be said before that attempt is taken over."""
        self.run = replace(self.run, restart=RestartDue(because))

    def hear_from(self, devices: GpuAccess) -> None:
        """Ask these what the GPU driver says: they know what it said since the attempt
        began that is taken over."""
        self.devices = devices

    def take_over(self, attempt: LaunchedAttempt) -> None:
        """Begin with an attempt that an earlier supervisor started and that still runs."""
        self._following.start(attempt, taken_over=True)
        self.progress.take_over(self.run.attempt)
        self.run = taken_over(self.run)

    def adopt(
        self,
        exited: Exited,
        *,
        recovery: Sequence[Event] = (),
        unpromised: Unpromised | None = None,
    ) -> None:
        """Begin with the end of an attempt that an earlier supervisor started.

        If it was drained, there is nothing left to decide: the run simply goes on.
        ``recovery``: what it told of the failure that it went on after last.
        ``unpromised``: why it promised no bits, which nobody may have heard: a module
        that was taken up is not told of again.
        """
        before = self._without_promise(self._after(recovery), unpromised)
        if exited.evidence.drained:
            history = before.history.updated(
                cause=Cause.PREEMPTED,
                last_step=exited.last_step,
                snapshot_step=exited.snapshot_step,
            )
            self.run = replace(before, history=history, offer=None)
            self.recorder.attempt(history.attempts[-1])
        else:
            self.run = replace(before, phase=RunPhase.RUNNING, deadline=None)
            self._following.adopt(exited, self.devices)

    def _without_promise(self, run: RunState, told: Unpromised | None) -> RunState:
        last = run.history.last
        if last is None or told is None:
            return run
        first = weakest((last.unpromised, told))
        known = replace(run, history=run.history.updated(unpromised=first))
        self.recorder.attempt(known.history.attempts[-1])
        return known

    def _after(self, recovery: Sequence[Event]) -> RunState:
        """The run, where its attempt went on after a failed step as it had been allowed
        to, and ended before anybody heard of that."""
        before = self.run
        if before.offer is None:
            return before
        self.run = replace(before, phase=RunPhase.RUNNING, deadline=None)
        for event in recovery:
            self._happen(event)
        # Nobody knows when it would have made its next step; from where is seen later.
        known = self.run.open_incident
        return replace(
            self.run,
            phase=before.phase,
            deadline=before.deadline,
            open_incident=None if known is None else replace(known, at=None),
        )

    def status(self) -> JobStatus:
        """What to show right now."""
        known = self._following.status(
            self.run, self.devices, incidents=self._incidents
        )
        phases = {**known.phase_seconds, **self.recorder.between.seconds}
        known = with_run_peak(known, self.progress.run_peak_bytes)
        return replace(
            known,
            standby=self.standby.about or None,
            standby_bytes=self.standby.waiting_bytes,
            phase_seconds=phases,
        )

    def _listen(self) -> None:
        """News of the attempt, its end, and the deadline."""
        self._looked_at = self.clock.now()
        self._following.look(self.run, self.devices)
        self.standby.look(
            self.run,
            stepped=self._following.has_stepped,
            forecast_seconds=self._following.memory.host_seconds_left,
            expected=self._expected,
        )
        self.recorder.see(self.run.state)
        self.recorder.flush()
        if self.disks is not None:
            self.disks.see(self.row.job, list(self._disk_troubles()))
            self.disks.look()
        deadline = self.run.deadline
        over = self._following.over  # it has ended: nothing is overdue any more
        if deadline is not None and not over and self.clock.now() >= deadline:
            self.post(DeadlineExpired())

    def _disk_troubles(self) -> Iterator[TroubleAt]:
        """What the run could not write to disk, or waits for."""
        job, problem = self.row.job, self.recorder.problem
        if problem is not None and not problem.busy:
            trouble = DiskTrouble(job=job, use=DiskUse.LEDGER, because=str(problem))
            yield self.ledger.path.parent, trouble
        unsaved = self._following.unsaved
        if unsaved is not None:
            trouble = DiskTrouble(job=job, use=DiskUse.SNAPSHOTS, because=unsaved)
            yield self.paths.snapshots, trouble
        awaited = self.run.overrides.awaited
        if self.run.phase is RunPhase.WAITING and awaited is not None:
            for place, needed in self._without_room(awaited):
                trouble = DiskTrouble(
                    job=job,
                    use=DiskUse.TRAINING,
                    because=self.run.message,
                    needs_bytes=needed,
                )
                yield place, trouble

    def _without_room(self, awaited: Awaited) -> Iterator[tuple[Path, int]]:
        """Where room is waited for, and how much."""
        free = None if awaited.disk is None else local_disks.free_bytes(awaited.disk)
        if awaited.disk is not None and free is not None and free < awaited.disk_bytes:
            yield Path(awaited.disk), awaited.disk_bytes
        elif awaited.room_bytes is not None:
            yield self.paths.snapshots, awaited.room_bytes

    def _happen(self, event: Event) -> None:
        before = self.run
        self.run, effects = step(self.run, event, now=self.clock.now())
        with self.recorder.together():  # first: what is done has been written down
            for effect in effects:
                self._write_down(effect)
            self.recorder.changes(before, self.run)
        for effect in effects:
            self._perform(effect)
        if self.notifications is not None:
            self.notifications.happened(before, self.run, effects)
        self._record_progress(event)  # last: nothing waits for it

    def _record_progress(self, event: Event) -> None:
        match event:
            case Exited(evidence=evidence):
                self.progress.end(evidence)
            case StepFailed(exited=exited):
                self.progress.failed(exited.evidence)
            case ProgressReported(peak_bytes=peak, limit_bytes=limit):
                self.progress.told_peak(peak, limit)
            case _:
                return

    def _write_down(self, effect: Effect) -> None:
        self.recorder.effect(effect)
        if isinstance(effect, RecordIncident):
            if effect.happened in FAILURES:
                self._incidents[effect.diagnosis.cause, effect.remedy.kind] += 1
            self.say(incident_sentence(effect), level=LogLevel.WARNING)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Launch():
                self._launch(effect)
            case AskDrain() | Kill() | TakeStacks():
                self._following.ask(effect, self.run, self.devices)
            case AnswerFailure():
                self._following.answer(effect)
            case CheckGate(awaited=awaited):
                self.post(self._gate(awaited))
            case Say(text=text, level=level):
                self.say(text, level=level)
            case End(exit_code=code):
                self.exit_code = code
            case Quarantine() | RecordIncident() | UpdateIncident() | ReviseAdvice():
                return  # written down before

    def _gate(self, awaited: Awaited | None) -> Event:
        kept = self.recorder.quarantined()
        try:
            return gate(
                self._following, self.run, self.devices, kept=kept, awaited=awaited
            )
        except OSError as error:  # too many open files, say: that passes by
            return GateHeld(f"whether anything is left cannot be seen: {error}")

    def _launch(self, effect: Launch) -> None:
        paths = self.paths.attempt(effect.number)
        try:
            directive = self._directive(effect)
            attempt = self.standby.take(directive, paths) or self.launcher.launch(
                self.spec, directive, paths=paths
            )
        except LaunchError as error:
            self.post(SpawnFailed(str(error), lasting=error.lasting))
        except OSError as error:
            message = f"cannot start the attempt: {error}"
            self.post(SpawnFailed(message, lasting=False))
        else:
            self._following.start(attempt)
            self.progress.begin(effect.number)

    def _expected(self) -> Directive:
        """What the next attempt is told if nothing changes for it."""
        return self._made(self.run.attempt + 1, self.run.overrides)

    def _made(self, number: int, overrides: Overrides) -> Directive:
        between_failures = mean_seconds_between_failures(
            seconds=self._following.spent_seconds, failures=self.run.history.failures
        )
        return make_directive(
            self.row,
            self.spec,
            self.paths,
            number,
            overrides,
            between_failures=between_failures,
            gpus=self.devices.gpus(),
            quarantined=self.run.quarantined,
        )

    def _directive(self, effect: Launch) -> Directive:
        directive = self._made(effect.number, effect.overrides)
        modules, self.changed_modules = self.changed_modules, Changed.AS_KEPT
        goes_on = goes_on_with_other_data(
            accepted=self.accept_changes,
            stop=self.spec.restart.data_changed == "stop",
            by_hand=self.by_hand,
            trained=self.run.history.trained,
        )
        return replace(
            self.planned.of(directive),
            accept_changes=goes_on,
            in_place=directive.in_place and self.launcher.user_id is None,
            standby=self.standby.wanted,
            changed_modules=modules,
            prove=effect.prove and modules is Changed.AS_KEPT,
        )
