"""The monitor of the attempts of a run: each from its start until all is known of its end.

What is new becomes events, in the order in which it is seen; what follows from them is
decided elsewhere. Nobody waits here.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from supervisor.core.diagnosis.result import IncidentKind
from supervisor.core.gpu.assignment import named
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.accounting.snapshot_stats import SnapshotStats
from supervisor.core.jobs.job_status import JobStatus, RemoteStatus
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.effects import (
    AnswerFailure,
    AskDrain,
    Kill,
    TakeStacks,
)
from supervisor.core.lifecycle.events import (
    DriverStuck,
    Event,
    Exited,
    SnapshotFailed,
    Spawned,
    SpawnFailed,
    StepFailed,
    WentOn,
)
from supervisor.core.lifecycle.run_state import RunState
from supervisor.host.exporter.allocator_status import completed
from supervisor.host.gpu.gpu_access import GpuAccess
from supervisor.host.launch.launcher import (
    LaunchedAttempt,
    Launcher,
    LaunchError,
    Name,
    read_shimmed,
)
from supervisor.host.launch.leftovers import Leftovers
from supervisor.host.ledger.ledger import RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.memory.memory_monitor import MemoryMonitor, ask_who_holds
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.disk_room import disk_room
from supervisor.host.telemetry.allocator_dump import newest_age
from supervisor.host.telemetry.attempt_view import AttemptView
from supervisor.runtime.attempts.advisor import Advisor
from supervisor.runtime.attempts.attempt_handle import AttemptHandle
from supervisor.runtime.attempts.directive_builder import (
    answer_of,
    log_cap_of,
    tiers_of,
)
from supervisor.runtime.attempts.evidence_collector import gather
from supervisor.runtime.attempts.pending_exit import PendingExit
from supervisor.runtime.status_builder import (
    NONE_ENDED,
    EndedAttempts,
    Incidents,
    RunFacts,
    SnapshotTotals,
    ended_attempts,
    job_status,
    keep_totals,
    of_a_beginning,
    remote_status,
)
from supervisor.wire.files import write_json
from supervisor.wire.page import Page
from supervisor.wire.paths import RunPaths
from supervisor.wire.snapshots.manifest import DURABLE

TICK_SECONDS = 1.0
"""How often an attempt is looked at while nothing else happens."""
CALM_SECONDS = 2.0
"""... while it trains and its memory is far from any end: the end of the attempt itself
is told by a descriptor."""
SHOWN_SECONDS = 0.5
"""... where somebody is shown it."""
STARTING_SECONDS = 0.01
"""How often an attempt that is being started is looked at."""
ENDING_SECONDS = 0.05
"""How often the word of the GPU driver is looked for that an attempt's end waits for."""


def shared(last: float, *, every: float) -> float:
    """The time after ``last`` for what is done ``every`` so many seconds: the same for
    all who do it, so that they share a turn; half of ``every`` early or late at most."""
    return (round(last / every) + 1) * every


@dataclass(kw_only=True)
class AttemptMonitor:
    """The attempts of one run, one after the other."""

    row: RunRow
    spec: Spec
    paths: RunPaths
    archive: RunArchive
    """Told what an attempt has told of its snapshots."""
    launcher: Launcher
    clock: Clock
    post: Callable[[Event], None]
    """Told what is new."""
    seen: Callable[[Page], None]
    """Told where the attempt is, at each look."""
    usual_seconds: float
    """After how long to look again while nothing happens."""
    calm_seconds: float
    """... and there is nothing to be expected."""
    population: ProcessTree
    remains: Leftovers = field(init=False)
    memory: MemoryMonitor = field(init=False)
    handle: AttemptHandle | None = None
    """Of the attempt that runs; None: there is none."""
    _advisor: Advisor = field(default_factory=Advisor)
    """Of the attempt that runs."""
    _taken_over: bool = False
    """An earlier supervisor had started it."""
    earlier: EndedAttempts = NONE_ENDED
    """Those before the one that runs."""
    unsaved: str | None = None
    """Why the newest snapshot could not be saved to disk; None: it could, or there was none."""
    _asking: tuple[int, PendingExit, bool] | None = None
    """Number and evidence of the failed step at which it stands still, and whether not all
    is known of that; None: it does not."""
    _ending: PendingExit | None = None
    """Of an attempt whose processes are gone, until all is known of it."""

    def __post_init__(self) -> None:
        self.remains = Leftovers(
            run_id=self.row.run_id,
            user_id=self.launcher.user_id,
            population=self.population,
        )
        self.memory = MemoryMonitor.of(self.spec)

    def begin(self, run: RunState) -> None:
        """Before the first look, after ``start`` of one that is taken over: what earlier
        attempts left. One that is followed tells of itself."""
        ended = run.attempt if self.handle is None else run.attempt - 1
        totals = SnapshotTotals(self.archive, self.row.id, keep=True)
        self.earlier = ended_attempts(self.paths, ended + 1, totals)
        if ended:
            self.remains.remember(read_shimmed(self.paths.attempt(ended)))

    def start(self, attempt: LaunchedAttempt, *, taken_over: bool = False) -> None:
        """Follow ``attempt``, which was launched or is taken over."""
        self.handle = AttemptHandle.over(attempt, cap=log_cap_of(self.spec))
        self._taken_over = taken_over
        self._advisor = Advisor()
        self._asking = None

    def adopt(self, exited: Exited, devices: GpuAccess) -> None:
        """The attempt of an earlier supervisor has ended, as its files tell it."""
        self._ending = self._ending_of(exited, devices)

    @property
    def over(self) -> bool:
        """The attempt has ended, but not all is known of that."""
        return self._ending is not None

    @property
    def has_stepped(self) -> bool:
        """Whether the attempt that runs has made a step."""
        view = None if self.handle is None else self.handle.telemetry.view
        return view is not None and view.first_step is not None

    @property
    def spent_seconds(self) -> float:
        """In the phases of the attempts that ended."""
        page = self.earlier.page
        return 0.0 if page is None else sum(page.phase_seconds)

    @property
    def descriptors(self) -> list[int]:
        """What becomes readable when there is something to see."""
        known = None if self.handle is None else self.handle.attempt.descriptor
        return [] if known is None else [known]

    def due_after(self, looked_at: float) -> float:
        """When to look again (monotonic seconds) while no descriptor is readable."""
        if self.over or (self._asking is not None and self._asking[2]):
            return looked_at + ENDING_SECONDS
        if self.handle is None:
            return shared(looked_at, every=self.usual_seconds)
        if not self.handle.started:
            return looked_at + STARTING_SECONDS
        quiet = self.memory.calm and not self.handle.ending
        calm = quiet and bool(self.descriptors)
        usual = self.calm_seconds if calm else self.usual_seconds
        if self.behind:
            return looked_at
        log_due = looked_at + self.handle.log_seconds
        return min(shared(looked_at, every=usual), log_due)

    @property
    def behind(self) -> bool:
        """Whether the attempt has told more than a look reads: one that is taken over
        has, of a long time."""
        handle = self.handle
        if handle is None:
            return False
        return handle.log_seconds <= 0.0 or handle.telemetry.behind

    def look(self, run: RunState, devices: GpuAccess) -> None:
        """Post the news of the attempt, and of its end."""
        if self.handle is not None:
            self._follow(self.handle, run, devices)
        if self._ending is not None:
            self._await(self._ending)

    def _follow(self, handle: AttemptHandle, run: RunState, devices: GpuAccess) -> None:
        try:
            if not handle.started and handle.attempt.started():
                handle.started = True
                pid = handle.attempt.pid or 0
                self.post(Spawned(pid, taken_over=self._taken_over))
        except LaunchError as error:
            self.handle = None
            self.post(SpawnFailed(str(error), lasting=error.lasting))
        if handle.started:
            self._observe(handle, run, devices)

    def _observe(
        self, handle: AttemptHandle, run: RunState, devices: GpuAccess
    ) -> None:
        ended = handle.attempt.ended()  # asked first: all it wrote is read below
        news = handle.telemetry.poll()
        if self._may_recover:
            handle.log.forget_before(handle.telemetry.view.log_from)
        else:
            news = [one for one in news if not isinstance(one, WentOn)]
        self._post_all([self._with_room(one, run) for one in news])
        if not handle.telemetry.behind:
            self._see_snapshots(handle.telemetry.view.tiers)
        handle.read_log(now=self.clock.now())
        if ended and not handle.telemetry.is_read():
            return  # how it ended is told by what comes last
        if ended:
            self._asking = None
            self._ending = self._ended(handle, run, devices)
        else:
            self._hear_out(handle, devices)
            stuck = devices.stuck()
            if stuck is not None:
                self.post(DriverStuck(stuck))
            now = self.clock.now()
            left = self.memory.host_seconds_left
            looked = handle.look(now=now, remains=self.remains, host_seconds=left)
            self._post_all(looked)
            page = self.beside_driver(handle.page, run, devices)
            if page is not None:
                self.seen(page)
            seen = self.memory.look(
                attempt=run.attempt,
                pid=handle.attempt.pid,
                page=page,
                now=now,
                tree=handle.of_training(self.remains),
            )
            self._post_all(seen)
        self._advise(handle, run, () if ended else devices.gpus())

    def _advise(
        self, handle: AttemptHandle, run: RunState, gpus: tuple[Gpu, ...]
    ) -> None:
        """Post what makes the attempt slower than it need be, where that is news."""
        out = run.quarantined.union(run.overrides.avoid)
        usable = [gpu for gpu in named(self.spec.gpus, gpus) if gpu not in out]
        self._advisor.see_gpus(gpus, handle.page, named=usable, ours=self.remains.pids)
        looked = self._advisor.look(
            handle.telemetry.view, handle.page, workspace=handle.log.workspace
        )
        self._post_all(looked)

    @property
    def _may_recover(self) -> bool:
        """Whether the attempt was told that it may ask. What it says of that by itself is
        not heard: the answer would be written where another user decides what is there."""
        return self.spec.remedies.in_place and self.launcher.user_id is None

    def _hear_out(self, handle: AttemptHandle, devices: GpuAccess) -> None:
        """It may stand still at a step that failed, and wait for an answer."""
        hears = self._may_recover and not handle.telemetry.behind
        asks = handle.telemetry.view.asks if hears else 0
        if not asks:
            self._asking = None
            return
        if self._asking is None or self._asking[0] != asks:
            exited = gather(
                handle.attempt.paths,
                telemetry=handle.telemetry,
                log=handle.log,
                cpu_limit=self.spec.memory.cpu,
                snapshots=tiers_of(self.row, self.spec, self.paths),
                oom_kills=handle.attempt.oom_kills(),
                asks=True,
            )
            self._asking = asks, self._ending_of(exited, devices), True
        number, pending, waits = self._asking
        known = pending.known(now=self.clock.now()) if waits else None
        if known is not None:
            self._asking = number, pending, False
            self.post(StepFailed(number=number, exited=known))

    def answer(self, effect: AnswerFailure) -> None:
        """Tell the attempt that stands still what to do. Where that cannot be written it
        ends by itself after a while."""
        if self.handle is not None:
            with contextlib.suppress(OSError):
                answer = answer_of(effect, self.spec).to_json()
                write_json(self.handle.attempt.paths.recovery, answer)

    def _with_room(self, event: Event, run: RunState) -> Event:
        """How full the disk is, for the incident: only the first of an attempt is one."""
        known = IncidentKind.UNSAVED_ON_DISK in run.unsaved
        if not isinstance(event, SnapshotFailed) or event.in_memory or known:
            return event
        full = event.no_room
        return replace(event, room=disk_room(self.paths.snapshots)) if full else event

    def _see_snapshots(self, tiers: SnapshotStats) -> None:
        if DURABLE in tiers.failing:
            self.unsaved = tiers.failing[DURABLE]
        elif DURABLE in tiers.newest:
            self.unsaved = None

    def status(
        self, run: RunState, devices: GpuAccess, *, incidents: Incidents
    ) -> JobStatus:
        """What the run, its attempt and the pages of those before tell together."""
        self.see(run, devices)
        handle, page, earlier = self.handle, None, self.earlier
        if handle is not None:
            page = self.beside_driver(handle.page, run, devices)
        if page is None:
            page, earlier = earlier.page, replace(earlier, page=None)
            if page is not None and handle is not None:
                page = of_a_beginning(page)  # it has none of its own yet
        view = AttemptView() if handle is None else handle.telemetry.view
        facts = RunFacts(
            job=self.row.job,
            state=run.state,
            attempt=run.attempt,
            message=run.message,
            incidents=incidents,
            overrides=run.overrides,
            history=run.history,
            view=view,
            behind=handle is not None and self._is_untold(handle),
            forecast_seconds=self.memory.seconds_left(),
            remote=self._remote(),
            liveness=run.liveness,
            refused_age_seconds=None
            if handle is None
            else newest_age(handle.attempt.paths.dumps, wall=self.clock.wall()),
        )
        pid = None if handle is None else handle.attempt.pid
        return job_status(facts, page, pid=pid, now=self.clock.now(), earlier=earlier)

    def _is_untold(self, handle: AttemptHandle) -> bool:
        """Whether not all is read that an attempt told an earlier supervisor."""
        unread = self._taken_over and not handle.started
        return unread or handle.telemetry.behind

    def _remote(self) -> RemoteStatus | None:
        address = self.spec.snapshots.remote
        if address is None:
            return None
        told = remote_status(self.paths, now=self.clock.now())
        return told or RemoteStatus(address=address)

    def see(self, run: RunState, devices: GpuAccess) -> None:
        """Read the page of the attempt, unless that was done just now: who trains may
        wait for an answer, because memory comes to its end."""
        handle, now = self.handle, self.clock.now()
        if handle is not None and now - handle.page_at >= SHOWN_SECONDS:
            handle.read_page(now=now)
            page = self.beside_driver(handle.page, run, devices)
            if page is not None:
                self.memory.glance(page)

    def _post_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self.post(event)

    def beside_driver(
        self, page: Page | None, run: RunState, devices: GpuAccess
    ) -> Page | None:
        """``page``, its memory as the allocator's counts and the driver tell it together
        where its map cannot be read."""
        if self.spec.memory.cpu is not None:
            return page
        out = run.quarantined.union(run.overrides.avoid)
        return completed(page, self.spec.gpus, gpus=devices.gpus, out=out)

    def _ended(
        self, handle: AttemptHandle, run: RunState, devices: GpuAccess
    ) -> PendingExit:
        """All processes of the attempt are gone: what its files tell."""
        name = Name(run_id=self.row.run_id, job=self.row.job, number=run.attempt)
        exited = gather(
            handle.attempt.paths,
            telemetry=handle.telemetry,
            log=handle.log,
            cpu_limit=self.spec.memory.cpu,
            snapshots=tiers_of(self.row, self.spec, self.paths),
            oom_kills=handle.attempt.oom_kills(),
            unit=handle.attempt.shim_end()
            or self.launcher.told(name, paths=handle.attempt.paths),
        )
        page = handle.telemetry.page()
        if page is not None:
            self.seen(self.beside_driver(page, run, devices) or page)
        tiers = handle.telemetry.view.tiers
        self.earlier = self.earlier.and_then(page, tiers)
        keep_totals(self.archive, self.row.id, run.attempt, tiers)
        self.handle = None
        exited = self.memory.close(exited)
        return self._ending_of(handle.close(exited, remains=self.remains), devices)

    def _ending_of(self, exited: Exited, devices: GpuAccess) -> PendingExit:
        return PendingExit(
            exited=exited,
            at=self.clock.now(),
            driver=devices.faults,
            gpus=devices.gpus,
            pids=self.remains.pids,
        )

    def _await(self, ending: PendingExit) -> None:
        """What driver and kernel have to say of the end may come a moment later."""
        exited = ending.known(now=self.clock.now())
        if exited is not None:
            self._ending = None
            self.post(exited)

    def ask(
        self, effect: AskDrain | Kill | TakeStacks, run: RunState, devices: GpuAccess
    ) -> None:
        """Make the attempt end, or tell what it does."""
        handle = self.handle
        if handle is None:
            return  # it ended a moment ago: the exit is on its way
        match effect:
            case AskDrain():
                if run.restart is not None and run.restart.averts is not None:
                    ask_who_holds(handle.attempt.paths)
                handle.attempt.ask_drain()
            case TakeStacks():
                handle.take_stacks(now=self.clock.now())
            case Kill():
                stuck = handle.kill(
                    devices.gpus(),
                    now=self.clock.now(),
                    patience_seconds=self.spec.drain.unkillable,
                )
                if stuck is not None:
                    self.post(stuck)
