"""Handing out GPUs: rules and properties."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.managed.scheduling import (
    Assignments,
    CpuSlots,
    JobStart,
    WaitingJob,
    assign,
    takes_another_turn,
)

GPUS = tuple(f"GPU-{number}" for number in range(8))


def wants(
    job: str, count: int | tuple[str, ...], *, turn: int = 0, priority: int = 0
) -> WaitingJob:
    """A job of alice's."""
    return WaitingJob(job=job, owner="alice", wants=count, turn=turn, priority=priority)


def started(answer: Assignments) -> dict[str, tuple[str, ...]]:
    """Who starts on what."""
    return {start.job: start.gpus for start in answer.starts}


def test_by_priority_then_first_come() -> None:
    """The highest priority first; among equals the one that came first."""
    waiting = [
        wants("late", 1, turn=3),
        wants("early", 1, turn=1),
        wants("urgent", 1, turn=9, priority=5),
    ]
    answer = assign(waiting, usable=GPUS[:2], taken={})
    assert [start.job for start in answer.starts] == ["urgent", "early"]
    assert answer.because == {"late": "wants 1 GPUs, 0 are free"}


def test_a_large_job_is_not_starved_by_small_ones() -> None:
    """What is free is kept for it; the small one behind it waits."""
    waiting = [wants("large", 2, turn=1), wants("small", 1, turn=2)]
    taken = {"running": ("bob", (GPUS[0],))}
    answer = assign(waiting, usable=GPUS[:2], taken=taken)
    assert answer.starts == ()
    assert answer.because["large"] == "wants 2 GPUs, 1 are free"


def test_what_can_never_run_holds_nobody_back() -> None:
    """Too many GPUs, or one that is not there: said, and passed over."""
    waiting = [
        wants("huge", 3, turn=1),
        wants("lost", ("GPU-x",), turn=2),
        wants("fits", 2, turn=3),
    ]
    answer = assign(waiting, usable=GPUS[:2], taken={})
    assert started(answer) == {"fits": GPUS[:2]}
    assert answer.because == {
        "huge": "wants 3 GPUs, 2 are in service",
        "lost": "GPU-x: no GPU in service is called so",
    }


def test_named_gpus() -> None:
    """A job may say which; it waits for exactly those, and they are kept for it."""
    waiting = [wants("one", (GPUS[1], GPUS[0]), turn=1), wants("two", 1, turn=2)]
    taken = {"running": ("bob", (GPUS[0],))}
    answer = assign(waiting, usable=GPUS[:3], taken=taken)
    assert started(answer) == {"two": (GPUS[2],)}
    assert answer.because["one"] == f"{GPUS[1]}, {GPUS[0]}: another job has it"
    assert started(assign(waiting, usable=GPUS[:2], taken={})) == {"one": GPUS[1::-1]}


def test_a_quota() -> None:
    """A user at their quota is passed over, and holds back nobody."""
    waiting = [wants("second", 1, turn=1), wants("ever", 3, turn=2)]
    bobs = WaitingJob(job="bobs", owner="bob", wants=1, turn=3)
    taken = {"first": ("alice", GPUS[:2])}
    answer = assign([*waiting, bobs], usable=GPUS, taken=taken, quota=2)
    assert started(answer) == {"bobs": (GPUS[2],)}
    assert answer.because == {
        "second": "alice holds 2 of 2 GPUs",
        "ever": "wants 3 GPUs, a user may hold 2",
    }


def test_jobs_without_gpus_always_start() -> None:
    """They take nothing from anybody."""
    answer = assign([wants("cpu", 0)], usable=(), taken={})
    assert answer.starts == (JobStart(job="cpu", gpus=()),)


WISHES = st.one_of(
    st.integers(0, 10), st.lists(st.sampled_from(GPUS), unique=True).map(tuple)
)
JOBS = st.lists(
    st.tuples(WISHES, st.sampled_from("abc"), st.integers(-1, 1)), max_size=30
).map(
    lambda rows: [
        WaitingJob(job=f"j{n}", owner=owner, wants=wish, priority=priority, turn=n)
        for n, (wish, owner, priority) in enumerate(rows)
    ]
)
USABLE = st.lists(st.sampled_from(GPUS), unique=True)
QUOTA = st.none() | st.integers(0, 8)


@given(JOBS, USABLE, QUOTA)
def test_never_two_jobs_on_a_gpu(
    jobs: list[WaitingJob], usable: list[str], quota: int | None
) -> None:
    """And none that is out of service, in every round until all have run."""
    waiting, taken = list(jobs), dict[str, tuple[str, tuple[str, ...]]]()
    owners = {job.job: job.owner for job in jobs}
    for _ in range(len(jobs) + 1):
        answer = assign(waiting, usable=usable, taken=taken, quota=quota)
        told = {start.job for start in answer.starts} | set(answer.because)
        assert told == {job.job for job in waiting}
        for start in answer.starts:
            taken[start.job] = (owners[start.job], start.gpus)
        held = [gpu for _, gpus in taken.values() for gpu in gpus]
        assert len(held) == len(set(held))
        assert set(held) <= set(usable)
        for owner in "abc":
            count = sum(len(g) for o, g in taken.values() if o == owner)
            assert quota is None or count <= quota
        waiting = [job for job in waiting if job.job not in taken]
        if taken:
            taken.pop(next(iter(taken)))


@given(JOBS, USABLE, QUOTA)
def test_none_starves(
    jobs: list[WaitingJob], usable: list[str], quota: int | None
) -> None:
    """When what runs ends, everyone who could run on an empty box gets their turn,
    however many others keep coming behind them."""
    waiting, taken = list(jobs), dict[str, tuple[str, tuple[str, ...]]]()
    owners = {job.job: job.owner for job in jobs}
    ran: set[str] = set()
    for turn in range(1000, 1000 + 4 * len(jobs) + 8):
        newcomer = WaitingJob(
            job=f"n{turn}", owner="n", wants=1, priority=-1, turn=turn
        )
        everyone = [*waiting, newcomer]
        answer = assign(everyone, usable=usable, taken=taken, quota=quota)
        if taken:
            taken.pop(next(iter(taken)))
        for start in answer.starts:
            owner = owners.get(start.job, "n")
            taken[start.job] = (owner, start.gpus)
            ran.add(start.job)
        waiting = [job for job in waiting if job.job not in ran]
    for job in waiting:  # who never ran can never run
        alone = assign([job], usable=usable, taken={}, quota=quota)
        assert alone.starts == ()


def another_turn(state: JobState, cause: Cause | None, **changed: Any) -> bool:
    """Of a job that asked for a number of GPUs, and had one that is quarantined now."""
    facts: dict[str, Any] = {
        "counted": True, "held": GPUS[:2], "quarantined": {GPUS[1]},
    }  # fmt: skip
    return takes_another_turn(state, cause, **(facts | changed))


def test_jobs_without_gpus_have_slots() -> None:
    """By priority as well; one user's share is full before the others'."""
    cpu = CpuSlots(slots=3, of_a_user=2)
    bob = WaitingJob(job="bobs", owner="bob", wants=(), turn=9)
    waiting = [
        wants("first", 0, turn=1),
        wants("second", 0, turn=2),
        wants("urgent", 0, turn=3, priority=1),
        wants("on a gpu", 1, turn=4),
        bob,
    ]
    answer = assign(waiting, usable=GPUS[:1], taken={}, cpu=cpu)
    assert list(started(answer)) == ["urgent", "first", "on a gpu", "bobs"]
    assert "alice has 2 jobs without GPUs running" in answer.because["second"]
    taken = {
        f"running-{n}": (owner, ()) for n, owner in enumerate(["eve", "eve", "al"])
    }
    full = assign([bob], usable=(), taken=taken, cpu=cpu)
    assert "3 jobs without GPUs run" in full.because["bobs"]


def test_a_job_whose_gpu_failed_takes_its_turn_again() -> None:
    """If it is the GPU that ended it, if another would do, and only then."""
    gave_up, failed = JobState.GAVE_UP, Cause.GPU_HARDWARE
    assert another_turn(gave_up, failed)
    assert another_turn(gave_up, Cause.UNKILLABLE)
    assert not another_turn(gave_up, Cause.USER_ERROR)
    assert not another_turn(gave_up, None)
    assert not another_turn(JobState.DRAINED, failed)
    assert not another_turn(gave_up, failed, counted=False)
    assert not another_turn(gave_up, failed, quarantined={GPUS[2]})
    assert not another_turn(gave_up, failed, held=())
