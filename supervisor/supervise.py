"""One run, supervised: next event or deadline → step → perform effects.

Everything is decided in ``core.lifecycle``; this module listens and acts. ``advance``
never waits, so that one process can drive many runs; ``supervise`` is the foreground
loop over a single one.
"""

import os
import select
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from supervisor.core.causes import Cause
from supervisor.core.effects import (
    AskDrain,
    CheckGate,
    Effect,
    End,
    Happened,
    Kill,
    Launch,
    Quarantine,
    RecordIncident,
    Say,
    TakeStacks,
    UpdateIncident,
)
from supervisor.core.events import (
    DriverStuck,
    Event,
    Exited,
    GateClear,
    GateHeld,
    Spawned,
    SpawnFailed,
    TimeIsUp,
    Unkillable,
)
from supervisor.core.failures import mean_seconds_between_failures
from supervisor.core.level import Level, Teller
from supervisor.core.lifecycle import Run, step
from supervisor.core.placement import GpuReading, by_uuid, named
from supervisor.core.spec import Spec
from supervisor.core.status import JobState, JobStatus
from supervisor.core.tiers import NO_SNAPSHOTS
from supervisor.core.treatment import Awaited, Treatment
from supervisor.core.verdicts import RemedyKind
from supervisor.directives import (
    incident_sentence,
    log_cap_of,
    make_directive,
    memory_of,
    tiers_of,
)
from supervisor.host.allocator_readings import completed
from supervisor.host.attempts import Attempt, Launcher, LaunchError, Name
from supervisor.host.clock import Clock
from supervisor.host.ending import Driver, Ending, NoDriver
from supervisor.host.evidence import gather
from supervisor.host.ledger import Ledger, RunRow
from supervisor.host.memory_watch import MemoryWatch, ask_who_holds
from supervisor.host.remains import Remains
from supervisor.host.status import RunFacts, earlier_page, job_status, summed
from supervisor.host.watching import Watch
from supervisor.recording import Recorder
from supervisor.signals import wakeups
from supervisor.wire.changed import Changed
from supervisor.wire.directive import Directive
from supervisor.wire.page import Page
from supervisor.wire.paths import RunPaths

TICK_SECONDS = 0.5
"""How often telemetry is read and shown while nothing else happens."""
STARTING_SECONDS = 0.01
"""How often an attempt that is being started is looked at."""
ENDING_SECONDS = 0.05
"""How often the word of the GPU driver is looked for that an attempt's end waits for."""


def _not_stuck() -> str | None:
    """Nobody asks the driver."""
    return None


def _no_gpus() -> tuple[GpuReading, ...]:
    """Nothing is known of the GPUs of the box."""
    return ()


@dataclass(kw_only=True)
class Supervisor:
    """One run, from its first attempt to its end."""

    row: RunRow
    spec: Spec
    run: Run
    paths: RunPaths
    ledger: Ledger
    launcher: Launcher
    clock: Clock
    say: Teller
    show: Callable[[JobStatus], None] | None
    """Told how things are after each ``advance``; None: who wants to know asks."""
    accept_changes: bool = False
    """Go on although the training data changed."""
    changed_modules: Changed = Changed.AS_KEPT
    """For the next attempt alone: those after it import what it did."""
    gpus: Callable[[], tuple[GpuReading, ...]] = _no_gpus
    """The GPUs of the box as they are now; it never waits for the driver."""
    faults: Driver = field(default_factory=NoDriver)
    """What befell an attempt and its GPUs."""
    stuck: Callable[[], str | None] = _not_stuck
    """Why the GPU driver will not answer before a reboot; None: it does."""
    silent: Callable[[], str | None] = _not_stuck
    """Why nothing is known of the GPUs of the box; None: something is, or it has none."""
    exit_code: int | None = None
    """What the command ends with; None while the run goes on."""
    recorder: Recorder = field(init=False)
    remains: Remains = field(init=False)
    memory: MemoryWatch = field(init=False)
    _watch: Watch | None = None
    _ending: Ending | None = None
    """Of an attempt whose processes are gone, until all is known of it."""
    _inbox: deque[Event] = field(default_factory=deque[Event])
    _earlier: Page | None = None
    """Those of the attempts that ended, as one."""
    _incidents: Counter[tuple[Cause, RemedyKind]] = field(
        default_factory=Counter[tuple[Cause, RemedyKind]]
    )

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            row=self.row, ledger=self.ledger, clock=self.clock, say=self.say
        )
        self.remains = Remains(run_id=self.row.run_id)
        self.memory = MemoryWatch.of(self.spec)

    def supervise(self) -> int:
        """Run until the end, in the foreground; the exit code of the command."""
        self.begin()
        with wakeups(self.post) as wakeup:
            while self.exit_code is None:
                descriptors = [wakeup, *self.descriptors()]
                ready, _, _ = select.select(descriptors, [], [], self.wait_seconds())
                if wakeup in ready:
                    os.read(wakeup, 4096)
                self.advance()
        self.finish()
        return self.exit_code

    def begin(self) -> None:
        """Before the first ``advance``: what earlier attempts left."""
        self._incidents = self.ledger.counts(self.row.job)
        self._earlier = earlier_page(self.paths, self.run.attempt + 1)

    def post(self, event: Event) -> None:
        """Something happened outside, such as a signal: taken in by ``advance``."""
        self._inbox.append(event)

    def descriptors(self) -> list[int]:
        """What becomes readable when ``advance`` has something to do."""
        known = None if self._watch is None else self._watch.attempt.descriptor
        return [] if known is None else [known]

    def wait_seconds(self) -> float:
        """How long ``advance`` may be put off while no descriptor is readable."""
        if self._inbox:
            return 0.0
        deadline = self.run.deadline
        if self._ending is not None:
            return ENDING_SECONDS
        left = TICK_SECONDS if deadline is None else deadline - self.clock.now()
        starting = self._watch is not None and not self._watch.started
        log = TICK_SECONDS if self._watch is None else self._watch.log_seconds
        tick = STARTING_SECONDS if starting else min(TICK_SECONDS, log)
        return min(max(left, 0.0), tick)

    def advance(self) -> None:
        """Take in what is new, and do what follows from it; never waits."""
        self._listen()
        while self._inbox and self.exit_code is None:
            self._happen(self._inbox.popleft())
        if self.show is not None:
            self.show(self.status())

    def finish(self) -> None:
        """After the last ``advance``: the run has ended, and leaves nothing behind."""
        self.recorder.flush()
        self._release_memory()

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
            self.say(problem, level=Level.WARNING)

    def resume_after(self, because: str) -> None:
        """The attempt is drained only to start again, as an earlier supervisor wanted:
        to be said before that attempt is taken over."""
        self.run = replace(self.run, resuming=because)

    def take_over(self, attempt: Attempt) -> None:
        """Begin with an attempt that an earlier supervisor started and that still runs."""
        self._watch = Watch.over(attempt, cap=log_cap_of(self.spec))
        launching = replace(self.run, state=JobState.LAUNCHING, deadline=None)
        self.run = replace(launching, message=f"attempt {self.run.attempt}")

    def adopt(self, exited: Exited) -> None:
        """Begin with the end of an attempt that an earlier supervisor started.

        If it was drained, there is nothing left to decide: the run simply goes on.
        """
        before = self.run
        if exited.evidence.drained:
            history = before.history.updated(
                cause=Cause.PREEMPTED,
                last_step=exited.last_step,
                snapshot_step=exited.snapshot_step,
            )
            self.run = replace(before, history=history)
            self.recorder.attempt(history.attempts[-1])
        else:
            self.run = replace(before, state=JobState.RUNNING, deadline=None)
            self._ending = self._ending_of(exited)

    def status(self) -> JobStatus:
        """What to show right now."""
        watch = self._watch
        facts = RunFacts(
            job=self.row.job,
            state=self.run.state,
            attempt=self.run.attempt,
            message=self.run.message,
            incidents=self._incidents,
            batch=self.run.history.batch,
            treatment=self.run.treatment,
            promise=None if watch is None else watch.telemetry.view.promise,
            snapshot_plan=None if watch is None else watch.telemetry.view.snapshot_plan,
            tiers=NO_SNAPSHOTS if watch is None else watch.telemetry.view.tiers,
            forecast_seconds=self.memory.seconds_left(),
        )
        page = None if watch is None else self._beside_driver(watch.page)
        earlier = self._earlier
        if page is None:
            page, earlier = earlier, None
        return job_status(
            facts,
            page,
            pid=None if watch is None else watch.attempt.pid,
            now=self.clock.now(),
            earlier=earlier,
        )

    def _beside_driver(self, page: Page | None) -> Page | None:
        """``page``, its memory as the allocator's counts and the driver tell it together
        where its map cannot be read."""
        if self.spec.memory.cpu is not None:
            return page
        out = self.run.quarantined.union(self.run.treatment.avoid)
        return completed(page, self.spec.gpus, gpus=self.gpus, out=out)

    def _listen(self) -> None:
        """News of the attempt, its end, and the deadline."""
        if self._watch is not None:
            self._follow(self._watch)
        if self._ending is not None:
            self._await(self._ending)
        self.recorder.flush()
        deadline = self.run.deadline
        over = self._ending is not None  # it has ended: nothing is overdue any more
        if deadline is not None and not over and self.clock.now() >= deadline:
            self.post(TimeIsUp())

    def _follow(self, watch: Watch) -> None:
        try:
            if not watch.started and watch.attempt.started():
                watch.started = True
                self.post(Spawned(watch.attempt.pid or 0))
        except LaunchError as error:
            self._watch = None
            self.post(SpawnFailed(str(error), lasting=error.lasting))
        if watch.started:
            self._observe(watch)

    def _observe(self, watch: Watch) -> None:
        ended = watch.attempt.ended()  # asked first: all it wrote is read below
        self._inbox.extend(watch.telemetry.poll())
        watch.read_log(now=self.clock.now())
        if ended:
            self._ending = self._over(watch)
        else:
            stuck = self.stuck()
            if stuck is not None:
                self.post(DriverStuck(stuck))
            now = self.clock.now()
            left = self.memory.host_seconds_left
            looked = watch.look(now=now, remains=self.remains, host_seconds=left)
            self._inbox.extend(looked)
            seen = self.memory.look(
                attempt=self.run.attempt,
                pid=watch.attempt.pid,
                page=self._beside_driver(watch.page),
                now=now,
                tree=self.remains.pids,
            )
            self._inbox.extend(seen)

    def _over(self, watch: Watch) -> Ending:
        """All processes of the attempt are gone: what its files tell."""
        exited = gather(
            watch.attempt.paths,
            telemetry=watch.telemetry,
            log=watch.log,
            limited=self.spec.memory.cpu is not None,
            snapshots=tiers_of(self.row, self.spec, self.paths),
            oom_kills=watch.attempt.oom_kills(),
            unit=self.launcher.told(self._name, paths=watch.attempt.paths),
        )
        page = watch.telemetry.page()
        if page is not None:
            self._earlier = summed(self._earlier, page)
        self._watch = None
        exited = self.memory.close(exited)
        return self._ending_of(watch.close(exited, remains=self.remains))

    @property
    def _name(self) -> Name:
        """Of the attempt that runs, or was the last to."""
        return Name(run_id=self.row.run_id, job=self.row.job, number=self.run.attempt)

    def _ending_of(self, exited: Exited) -> Ending:
        return Ending(
            exited=exited,
            at=self.clock.now(),
            driver=self.faults,
            gpus=self.gpus,
            pids=self.remains.pids,
        )

    def _await(self, ending: Ending) -> None:
        """What driver and kernel have to say of the end may come a moment later."""
        exited = ending.known(now=self.clock.now())
        if exited is not None:
            self._ending = None
            self.post(exited)

    def _happen(self, event: Event) -> None:
        before = self.run
        self.run, effects = step(self.run, event, now=self.clock.now())
        with self.recorder.together():  # first: what is done has been written down
            for effect in effects:
                self._write_down(effect)
            self.recorder.changes(before, self.run)
        for effect in effects:
            self._perform(effect)

    def _write_down(self, effect: Effect) -> None:
        match effect:
            case Quarantine():
                self.recorder.quarantine(effect)
            case RecordIncident():
                self._record(effect)
            case UpdateIncident():
                self.recorder.update(effect)
            case _:
                return

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Launch(number=number, treatment=treatment):
                self._launch(number, treatment)
            case AskDrain() | Kill() | TakeStacks():
                self._ask(effect)
            case CheckGate(awaited=awaited):
                self.post(self._gate(awaited))
            case Say(text=text, level=level):
                self.say(text, level=level)
            case End(exit_code=code):
                self.exit_code = code
            case Quarantine() | RecordIncident() | UpdateIncident():
                return  # written down before

    def _ask(self, effect: AskDrain | Kill | TakeStacks) -> None:
        watch = self._watch
        if watch is None:
            return  # it ended a moment ago: the exit is on its way
        match effect:
            case AskDrain():
                if self.run.averts is not None:
                    ask_who_holds(watch.attempt.paths)
                watch.attempt.ask_drain()
            case TakeStacks():
                watch.take_stacks(now=self.clock.now())
            case Kill():
                stuck = watch.kill(
                    self.gpus(),
                    now=self.clock.now(),
                    patience_seconds=self.spec.drain.unkillable,
                )
                if stuck is not None:
                    self.post(stuck)

    def _record(self, effect: RecordIncident) -> None:
        if effect.happened is Happened.ENDED:
            self._incidents[effect.diagnosis.cause, effect.remedy.kind] += 1
        self.recorder.incident(effect)
        self.say(incident_sentence(effect), level=Level.WARNING)

    def _gate(self, awaited: Awaited | None) -> GateClear | GateHeld | Unkillable:
        gpus = self.gpus()
        kept = self.recorder.quarantined()
        quarantined = self.run.quarantined if kept is None else kept
        out = quarantined.union(self.run.treatment.avoid)
        wanted = named(self.spec.gpus, gpus)
        found = self.remains.gate(
            now=self.clock.now(),
            gpus=gpus,
            visible=[gpu for gpu in wanted if gpu not in out],
            awaited=awaited,
            disk=self.paths.snapshots,
        )
        if not isinstance(found, GateClear):
            return found
        if wanted and out.issuperset(wanted):
            return GateHeld(
                f"every GPU of this run is quarantined: {', '.join(wanted)}"
            )
        blind = self._blind(gpus, out)
        if blind is not None:
            return GateHeld(blind)
        left = self.launcher.left(self.row.run_id, job=self.row.job)
        return GateClear(kept) if left is None else GateHeld(left)

    def _blind(self, gpus: tuple[GpuReading, ...], out: frozenset[str]) -> str | None:
        """Why it cannot be told which GPUs are not those that must be left out."""
        if gpus or not out or by_uuid(self.spec.gpus) or self.spec.memory.cpu:
            return None
        because = self.silent()
        return None if because is None else f"{', '.join(sorted(out))}: {because}"

    def _between_failures(self) -> float:
        """Mean seconds from one failure of this run to the next."""
        seconds = sum(self._earlier.phase_seconds) if self._earlier else 0.0
        return mean_seconds_between_failures(
            seconds=seconds, failures=self.run.history.failures
        )

    def _launch(self, number: int, treatment: Treatment) -> None:
        directive = self._directive(number, treatment)
        paths = self.paths.attempt(number)
        try:
            attempt = self.launcher.launch(self.spec, directive, paths=paths)
        except LaunchError as error:
            self.post(SpawnFailed(str(error), lasting=error.lasting))
        else:
            self._watch = Watch.over(attempt, cap=log_cap_of(self.spec))

    def _directive(self, number: int, treatment: Treatment) -> Directive:
        directive = make_directive(
            self.row,
            self.spec,
            self.paths,
            number,
            treatment,
            between_failures=self._between_failures(),
            gpus=self.gpus(),
            quarantined=self.run.quarantined,
        )
        modules, self.changed_modules = self.changed_modules, Changed.AS_KEPT
        return replace(
            directive, accept_changes=self.accept_changes, changed_modules=modules
        )
