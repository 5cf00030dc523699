"""What no sequence of events may do to a run: driven as the shell drives it."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence, NonFinite
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import Effect, Launch, Quarantine, RecordIncident
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    Event,
    Exited,
    GateClear,
    GateHeld,
    HealthSampled,
    ProgressReported,
    RestartDue,
    Spawned,
    SpawnFailed,
    StacksTaken,
    Unkillable,
)
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.lifecycle.table import TABLE, step
from supervisor.core.liveness.hang_detection import Look
from supervisor.core.remediation.escalation import Allow, RemedyPermissions
from supervisor.core.remediation.policy import Policy
from supervisor.wire.records.end_records import CrashReport, ExitRecord

GPUS = tuple(
    Gpu(uuid=f"GPU-{n}", index=n, memory=GpuMemory(total=100, used=0, free=100))
    for n in range(3)
)
BATCH = 512
LIMIT = 1 << 30

CRASHES = {
    "kill": None,
    "oom": "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when "
    "allocating tensor with shape[512,64]",
    "user": "ValueError: shapes do not match",
    "cudnn": "tensorflow.python.framework.errors_impl.InternalError: "
    "CUDNN_STATUS_EXECUTION_FAILED",
    "illegal": "tensorflow.python.framework.errors_impl.InternalError: "
    "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
    "ecc": "tensorflow.python.framework.errors_impl.InternalError: "
    "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
    "space": "OSError: [Errno 28] No space left on device",
    "nan": None,
}


@dataclass(frozen=True)
class EndOfRun:
    """How an attempt ends."""

    kind: str
    gained: int
    """Steps of snapshots more than before."""


def exited(end: EndOfRun, *, done: int, snapshot: int | None) -> Exited:
    """The end as the shell tells of it."""
    text = CRASHES[end.kind]
    name, _, message = (text or "").partition(": ")
    report = None
    if text is not None:
        report = CrashReport(
            exception=name, message=message, traceback="", steps_done=5, in_fit=True
        )
    lost = NonFinite(last_finite_step=max(done - 1, 1), step=done, because="nan")
    evidence = Evidence(
        exit=ExitRecord(
            pid=1, exit_code=None if text is None else 1,
            signal=9 if text is None else None, core_dumped=False, max_rss_bytes=1,
            user_seconds=0.0, system_seconds=0.0, started_ns=0, ended_ns=1,
            asked_to_stop=False, swept=0, unkillable=(),
        ),
        crash=report,
        steps_done=5,
        limited=True,
        gpus=GPUS,
        non_finite=lost if end.kind == "nan" else None,
    )  # fmt: skip
    return Exited(evidence=evidence, last_step=done, snapshot_step=snapshot)


@dataclass
class World:
    """A run, the attempts that really live, and what was promised so far."""

    run: RunState
    alive: int = 0
    now: float = 0.0
    failed_slices: list[tuple[str | None, int]] = field(
        default_factory=list[tuple[str | None, int]]
    )
    """Precision and size: in 16 bits a slice is another one."""
    quarantined: set[str] = field(default_factory=set[str])
    launched: list[Launch] = field(default_factory=list[Launch])

    def happen(self, event: Event, *, after: float = 1.0) -> list[Effect]:
        """One event; everything that must hold afterwards is checked."""
        before, self.now = self.run, self.now + after
        self.run, effects = step(before, event, now=self.now)
        row = TABLE.get((before.phase, type(event)))
        if row is None:
            assert (self.run, effects) == (before, ())
            return []
        assert self.run.phase in row.targets
        assert before.quarantined <= self.run.quarantined
        if isinstance(event, Exited | SpawnFailed):
            self.alive = 0
        for effect in effects:
            self._check(effect)
        return list(effects)

    def _check(self, effect: Effect) -> None:
        if isinstance(effect, Launch):
            assert self.alive == 0, "two attempts at once"
            self.alive = 1
            self.launched.append(effect)
            plan, precision = effect.overrides.plan, effect.overrides.precision
            sizes = [size for bits, size in self.failed_slices if bits == precision]
            failed = min(sizes, default=BATCH + 1)
            assert plan is None or (plan.slice_size or 0) < failed
            assert plan is not None or failed > BATCH
        if isinstance(effect, Quarantine):
            assert not self.quarantined & set(effect.gpus)
            self.quarantined |= set(effect.gpus)
        if isinstance(effect, RecordIncident) and effect.remedy.kind.restarts:
            bad = self.run.quarantined.union(self.run.overrides.avoid)
            assert {gpu.uuid for gpu in GPUS} - bad or not self.quarantined


def fresh(*, allowed: frozenset[Allow] = frozenset(), restarts: int = 3) -> RunState:
    """A run that was just begun."""
    policy = Policy(
        run_id="r",
        without_progress=restarts,
        back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
        terms=RemedyPermissions(allowed=allowed),
    )
    return RunState(policy=policy, grace_seconds=60.0)


ENDS = st.builds(
    EndOfRun, kind=st.sampled_from(sorted(CRASHES)), gained=st.integers(0, 2)
)
NO_PROGRESS = st.builds(
    EndOfRun, kind=st.sampled_from(sorted(CRASHES)), gained=st.just(0)
)
ALLOWED = st.frozensets(st.sampled_from(list(Allow)))


def live_through(world: World, end: EndOfRun, *, snapshot: int | None) -> int | None:
    """One attempt from the gate to its end; the newest snapshot after it."""
    world.happen(DeadlineExpired())
    world.happen(GateClear())
    world.happen(Spawned(1))
    plan = world.launched[-1].overrides.plan if world.launched else None
    size = BATCH if plan is None else plan.slice_size
    learned = ProgressReported(
        batch=BATCH, slice_size=None if plan is None else size, limit_bytes=LIMIT,
        jit=False, restored_step=snapshot or 0,
    )  # fmt: skip
    world.happen(learned)
    if end.kind == "oom":
        precision = world.run.overrides.precision
        world.failed_slices.append((precision, size or BATCH))
    detour = world.run.overrides.detour
    held = snapshot
    if detour is not None and held is not None:
        held = min(held, max(detour.restore_before_step - 1, 0))
    newest = None if held is None else held + end.gained
    world.happen(exited(end, done=(newest or 0) + 3, snapshot=newest))
    return newest


@settings(max_examples=100, deadline=None)
@given(st.lists(ENDS, min_size=1, max_size=25), ALLOWED)
def test_whatever_attempts_die_of(
    ends: list[EndOfRun], allowed: frozenset[Allow]
) -> None:
    """One at a time, never a slice that failed, never a GPU forgotten."""
    world, snapshot = World(fresh(allowed=allowed)), 0
    for end in ends:
        snapshot = live_through(world, end, snapshot=snapshot) or 0
        if world.run.state.ended:
            break
    assert world.quarantined <= world.run.quarantined


@settings(max_examples=100, deadline=None)
@given(st.lists(NO_PROGRESS, min_size=20, max_size=20), ALLOWED, st.integers(0, 4))
def test_nothing_restarts_for_ever_without_progress(
    ends: list[EndOfRun], allowed: frozenset[Allow], restarts: int
) -> None:
    """Whatever the mix of causes: the number of attempts is bounded by the budgets."""
    world = World(fresh(allowed=allowed, restarts=restarts))
    for end in ends:
        live_through(world, end, snapshot=0)
        if world.run.state.ended:
            break
    assert world.run.state is JobState.GAVE_UP
    assert world.run.attempt <= 3 * restarts + 1


@settings(max_examples=100, deadline=None)
@given(st.lists(NO_PROGRESS, min_size=20, max_size=20))
def test_not_even_where_nobody_knows_of_any_progress(ends: list[EndOfRun]) -> None:
    """Unknown is no progress either, in the long run."""
    world = World(fresh())
    for end in ends:
        live_through(world, end, snapshot=None)
        if world.run.state.ended:
            break
    assert world.run.state is JobState.GAVE_UP


@settings(max_examples=100, deadline=None)
@given(st.lists(ENDS, min_size=2, max_size=12), st.integers(1, 11))
def test_a_new_supervisor_decides_as_the_old_one_would(
    ends: list[EndOfRun], when: int
) -> None:
    """All that a decision needs is in the history and the overrides."""
    worlds = [World(fresh()), World(fresh())]
    snapshots: list[int | None] = [0, 0]
    for number, end in enumerate(ends):
        for index, world in enumerate(worlds):
            snapshots[index] = live_through(world, end, snapshot=snapshots[index])
        if number == when and not worlds[1].run.state.ended:
            old = worlds[1].run
            worlds[1].run = replace(
                fresh(),
                attempt=old.attempt,
                history=old.history,
                overrides=old.overrides,
                quarantined=old.quarantined,
            )
    first, second = (world.run for world in worlds)
    assert first.state is second.state
    assert first.overrides == second.overrides
    assert first.quarantined == second.quarantined


@settings(max_examples=100, deadline=None)
@given(st.lists(ENDS, min_size=1, max_size=20))
def test_the_last_good_snapshot_is_never_left_behind(ends: list[EndOfRun]) -> None:
    """Only a lost loss goes back further than to the newest; and never for long.

    A rollback sets aside what lies behind the bad place, and only that: what is older
    stays, and without a detour the newest is gone on from.
    """
    world, snapshot = World(fresh()), 0
    for end in ends:
        before = world.run.overrides.detour
        snapshot = live_through(world, end, snapshot=snapshot) or 0
        after = world.run.overrides.detour
        last = world.run.history.last
        assert last is not None
        if after is not None and after != before:
            assert last.cause is Cause.NON_FINITE_LOSS
            assert last.remedy in {RemedyKind.ROLLBACK, RemedyKind.ALTER}
            lost = last.last_step or 0
            assert after.restore_before_step >= lost - 1
        if world.run.state.ended:
            break


ANYTHING: st.SearchStrategy[Event] = st.one_of(
    st.builds(Spawned, st.integers(1, 99)),
    st.just(SpawnFailed("x")),
    st.builds(
        HealthSampled,
        st.builds(
            Look,
            heartbeat_ns=st.integers(0, 2),
            phase=st.sampled_from(["training", "validating", "snapshot", None]),
            state=st.sampled_from(["R", "S", "D", "T", None]),
        ),
        st.none() | st.integers(0, 100),
    ),
    st.builds(exited, ENDS, done=st.integers(1, 9), snapshot=st.none() | st.just(0)),
    st.builds(
        DrainRequested,
        st.just("SIGTERM"),
        at_once=st.booleans(),
        repeats=st.booleans(),
    ),
    st.just(RestartDue("planned")),
    st.just(StacksTaken()),
    st.builds(Unkillable, st.just((7,)), st.sampled_from([(), ("GPU-0",)])),
    st.just(DeadlineExpired()),
    st.just(GateClear()),
    st.just(GateHeld("pid 1")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ANYTHING, st.floats(0.0, 400.0)), max_size=80))
def test_no_order_of_events_breaks_them(events: list[tuple[Event, float]]) -> None:
    """Also events that no shell would ever send in that order; the table is total."""
    world = World(fresh())
    for event, after in events:
        world.happen(event, after=after)
