"""The supervising loop: next event or deadline → step → perform effects.

Everything is decided in ``core.lifecycle``; this module waits, listens and acts.
"""

import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from supervisor.core.batching import Plan
from supervisor.core.causes import Cause
from supervisor.core.effects import (
    AskDrain,
    CheckGate,
    Effect,
    End,
    Kill,
    Launch,
    RecordIncident,
    Say,
    UpdateIncident,
)
from supervisor.core.events import (
    DrainRequested,
    Event,
    Exited,
    GateClear,
    GateHeld,
    Spawned,
    SpawnFailed,
    TimeIsUp,
)
from supervisor.core.failures import mean_seconds_between_failures
from supervisor.core.lifecycle import Run, step
from supervisor.core.spec import Spec
from supervisor.core.status import JobState, JobStatus
from supervisor.core.verdicts import RemedyKind
from supervisor.host.cgroup import counted_since, oom_kills
from supervisor.host.clock import Clock
from supervisor.host.evidence import gather
from supervisor.host.launch_direct import (
    Attempt,
    LaunchError,
    launch,
    marked_processes,
)
from supervisor.host.ledger import Ledger, LedgerError, RunRow
from supervisor.host.logs import LogFollower
from supervisor.host.memory_tier import discard, release
from supervisor.host.status import RunFacts, earlier_pages, job_status
from supervisor.host.telemetry import Telemetry
from supervisor.wire.directive import Directive
from supervisor.wire.page import Page
from supervisor.wire.paths import RunPaths, memory_directory

TICK_SECONDS = 0.5
"""How often telemetry is read and shown while nothing else happens."""


@dataclass(slots=True)
class Watch:
    """All that belongs to the attempt that runs now."""

    attempt: Attempt
    telemetry: Telemetry
    log: LogFollower
    oom_kills_before: int | None


@dataclass(kw_only=True)
class Supervisor:
    """One run in the foreground, from its first attempt to its end."""

    row: RunRow
    spec: Spec
    run: Run
    paths: RunPaths
    ledger: Ledger
    clock: Clock
    say: Callable[[str], None]
    show: Callable[[JobStatus], None]
    accept_changes: bool = False
    """Go on although the training data changed."""
    _watch: Watch | None = None
    _inbox: deque[Event] = field(default_factory=deque[Event])
    _earlier: list[Page] = field(default_factory=list[Page])
    _incidents: list[tuple[Cause, RemedyKind]] = field(
        default_factory=list[tuple[Cause, RemedyKind]]
    )
    _unwritten: deque[Callable[[], None]] = field(
        default_factory=deque[Callable[[], None]]
    )
    _exit_code: int | None = None

    def supervise(self) -> int:
        """Run until the end; the exit code of the command."""
        self._incidents = self.ledger.counts(self.row.job)
        self._earlier = earlier_pages(self.paths, self.run.attempt + 1)
        with wakeups(self._inbox) as wakeup:
            while self._exit_code is None:
                self._listen(wakeup)
                while self._inbox and self._exit_code is None:
                    self._happen(self._inbox.popleft())
                self.show(self.status())
        self._write_pending()
        self._release_memory()
        return self._exit_code

    def _release_memory(self) -> None:
        """The run has ended: what lies in memory goes to disk, or is of no more use."""
        memory = memory_of(self.row, self.spec)
        if memory is None or marked_processes(self.row.run_id):
            return
        if self.run.state is JobState.FINISHED:
            discard(memory)
        else:
            problem = release(memory, self.paths.snapshots)
            if problem is not None:
                self.say(problem)

    def adopt(self, exited: Exited) -> None:
        """Begin with the end of an attempt that an earlier supervisor started.

        If it was drained, there is nothing left to decide: the run simply goes on.
        """
        before, wall = self.run, self.clock.wall()
        if exited.evidence.drained:
            history = before.history.updated(
                cause=Cause.PREEMPTED,
                last_step=exited.last_step,
                snapshot_step=exited.snapshot_step,
            )
            self.run = replace(before, history=history)
            last = history.attempts[-1]
            self._write(lambda: self.ledger.put_attempt(self.row.id, last, now=wall))
        else:
            self.run = replace(before, state=JobState.RUNNING, deadline=None)
            self._inbox.append(exited)

    def status(self) -> JobStatus:
        """What to show right now."""
        watch = self._watch
        facts = RunFacts(
            job=self.row.job,
            state=self.run.state,
            attempt=self.run.attempt,
            message=self.run.message,
            incidents=tuple(self._incidents),
            batch=self.run.history.batch,
            promise=None if watch is None else watch.telemetry.view.promise,
            snapshot_plan=None if watch is None else watch.telemetry.view.snapshot_plan,
        )
        page = None if watch is None else watch.telemetry.page()
        earlier = self._earlier
        if page is None and earlier:
            *earlier, page = earlier
        return job_status(
            facts,
            page,
            pid=None if watch is None else watch.attempt.pid,
            now=self.clock.now(),
            earlier=earlier,
        )

    def _listen(self, wakeup: int) -> None:
        """Wait for a signal, the end of the attempt, a deadline, or the next tick."""
        now, deadline = self.clock.now(), self.run.deadline
        if not self._inbox:
            left = TICK_SECONDS if deadline is None else deadline - now
            descriptors = [wakeup]
            if self._watch is not None:
                descriptors.append(self._watch.attempt.shim.descriptor)
            timeout = min(max(left, 0.0), TICK_SECONDS)
            ready, _, _ = select.select(descriptors, [], [], timeout)
            if wakeup in ready:
                os.read(wakeup, 4096)
        if self._watch is not None:
            self._follow(self._watch)
        self._write_pending()
        deadline = self.run.deadline
        if deadline is not None and self.clock.now() >= deadline:
            self._inbox.append(TimeIsUp())

    def _follow(self, watch: Watch) -> None:
        ended = watch.attempt.shim.ended()
        self._inbox.extend(watch.telemetry.poll())
        watch.log.poll()
        if ended:
            self._inbox.append(self._exited(watch))

    def _exited(self, watch: Watch) -> Exited:
        exited = gather(
            watch.attempt.paths,
            telemetry=watch.telemetry,
            log=watch.log,
            limited=self.spec.memory.cpu is not None,
            snapshots=(self.paths.snapshots, memory_of(self.row, self.spec)),
            oom_kills=counted_since(watch.oom_kills_before),
        )
        page = watch.telemetry.page()
        if page is not None:
            self._earlier.append(page)
        watch.attempt.shim.close()
        self._watch = None
        return exited

    def _happen(self, event: Event) -> None:
        before = self.run
        self.run, effects = step(self.run, event, now=self.clock.now())
        for effect in effects:
            self._perform(effect)
        self._store(before)

    def _store(self, before: Run) -> None:
        run, wall = self.run, self.clock.wall()
        last = run.history.last
        if last is not None and last != before.history.last:
            self._write(lambda: self.ledger.put_attempt(self.row.id, last, now=wall))
        stored = (run.state, run.message, run.plan)
        if stored != (before.state, before.message, before.plan):
            plan = None if run.plan is None else asdict(run.plan)
            ended = wall if run.state.ended else None
            self._write(
                lambda: self.ledger.set_state(
                    self.row.id,
                    state=run.state,
                    message=run.message,
                    plan=plan,
                    ended_at=ended,
                )
            )

    def _write(self, write: Callable[[], None]) -> None:
        self._unwritten.append(write)
        self._write_pending()

    def _write_pending(self) -> None:
        """Write what is due, in order; a full disk delays it, and loses nothing."""
        try:
            while self._unwritten:
                self._unwritten[0]()
                self._unwritten.popleft()
        except LedgerError as error:
            if len(self._unwritten) == 1:
                self.say(f"{error}; training goes on, this is written down later")

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Launch(number=number, plan=plan):
                self._launch(number, plan)
            case AskDrain() if self._watch is not None:
                self._watch.attempt.ask_drain()
            case Kill() if self._watch is not None:
                self._watch.attempt.kill()
            case CheckGate():
                self._inbox.append(self._gate())
            case RecordIncident():
                self._record(effect)
            case UpdateIncident():
                self._write(lambda: self.ledger.update_incident(self.row.id, effect))
            case Say(text=text):
                self.say(text)
            case End(exit_code=code):
                self._exit_code = code
            case AskDrain() | Kill():
                return  # it ended a moment ago: the exit is on its way

    def _record(self, effect: RecordIncident) -> None:
        wall = self.clock.wall()
        self._incidents.append((effect.diagnosis.cause, effect.remedy.kind))
        self._write(lambda: self.ledger.record_incident(self.row.id, effect, now=wall))
        self.say(incident_sentence(effect))

    def _gate(self) -> GateClear | GateHeld:
        left = marked_processes(self.row.run_id)
        if not left:
            return GateClear()
        pid, name = next(iter(left.items()))
        return GateHeld(f"process {pid} ({name}) of the attempt before")

    def _between_failures(self) -> float:
        """Mean seconds from one failure of this run to the next."""
        seconds = sum(sum(page.phase_seconds) for page in self._earlier)
        return mean_seconds_between_failures(
            seconds=seconds, failures=self.run.history.failures
        )

    def _launch(self, number: int, plan: Plan | None) -> None:
        paths = self.paths.attempt(number)
        kills = oom_kills()  # a direct launch shares our cgroup
        directive = replace(
            make_directive(
                self.row,
                self.spec,
                self.paths,
                number,
                plan,
                between_failures=self._between_failures(),
            ),
            accept_changes=self.accept_changes,
        )
        try:
            attempt = launch(self.spec, directive, paths=paths)
        except LaunchError as error:
            self._inbox.append(SpawnFailed(str(error)))
            return
        log = LogFollower(paths.output)
        self._watch = Watch(attempt, Telemetry(paths), log, kills)
        self._inbox.append(Spawned(attempt.pid))


def memory_of(row: RunRow, spec: Spec) -> Path | None:
    """Where the memory tier of a run is; None: it has none."""
    parent = spec.snapshots.memory
    return None if parent is None else memory_directory(Path(parent), row.run_id)


def make_directive(
    row: RunRow,
    spec: Spec,
    paths: RunPaths,
    number: int,
    plan: Plan | None,
    *,
    between_failures: float,
) -> Directive:
    """What attempt ``number`` is told; ``between_failures`` in seconds."""
    every, inside = spec.snapshots.every, spec.snapshots.memory_every
    memory = memory_of(row, spec)
    return Directive(
        run_id=row.run_id,
        job=row.job,
        attempt=number,
        script=spec.script,
        args=spec.args,
        attempt_directory=str(paths.attempt(number).root),
        snapshot_directory=str(paths.snapshots),
        memory_directory=None if memory is None else str(memory),
        seed=row.seed,
        restore=True,
        restore_before_step=None,
        slice_size=None if plan is None else plan.slice_size,
        calibrate=plan is not None and plan.calibrate,
        slice_ceiling=None if plan is None else plan.ceiling,
        memory_limit_bytes=spec.memory.cpu,
        gpu_memory_limit_bytes=spec.memory.gpu,
        gpu_memory_growth=spec.memory.gpu is None,
        allow_inexact=spec.microbatch.allow_inexact,
        snapshot_every_seconds=None if every is None else every.seconds,
        snapshot_every_steps=None if every is None else every.steps,
        memory_every_seconds=None if inside is None else inside.seconds,
        memory_every_steps=None if inside is None else inside.steps,
        snapshot_budget=spec.snapshots.budget,
        mean_seconds_between_failures=between_failures,
        snapshot_quota_bytes=spec.snapshots.quota,
        snapshots_kept=spec.snapshots.keep,
        deterministic=False,
    )


def incident_sentence(effect: RecordIncident) -> str:
    """An incident as one line for the log."""
    at = "" if effect.failed_step is None else f" at step {effect.failed_step}"
    reasons = effect.diagnosis.because
    because = f": {reasons[0].text.strip()[:200]}" if reasons else ""
    return f"attempt {effect.attempt} failed{at}: {effect.diagnosis.cause}{because}"


@contextlib.contextmanager
def wakeups(inbox: deque[Event]) -> Generator[int]:
    """SIGTERM, SIGINT and SIGHUP as events in ``inbox``; yields what to wait on.

    SIGHUP stays ignored where it is (``nohup``); else a closed terminal drains the run.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def received(number: int, _frame: object) -> None:
        inbox.append(DrainRequested(names[signal.Signals(number)]))

    names = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        names[signal.SIGHUP] = "the terminal was closed"
    before = {number: signal.signal(number, received) for number in names}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
