"""Which queued job gets which GPUs: by priority, then first come.

1. A GPU belongs to one job at a time, from its start to its end.
2. Jobs are looked at by priority, highest first, then by turn.
3. A job that does not fit holds back what is free for it, so that smaller jobs behind it
   cannot starve it; one that could not run even on an empty box holds back nothing.
4. A user at their quota is passed over, and holds back nothing.
5. A job without GPUs takes a slot of the processors; a user may hold so many at a time.
6. A job that said how many, not which, and gave up because one of its GPUs failed takes
   its turn again: each time there is one GPU less, so that has an end.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import JobState
from supervisor.core.remediation.remedy_table import ESCALATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that wants to start."""

    job: str
    owner: str
    wants: int | tuple[str, ...]
    """How many GPUs, or which."""
    priority: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSlots:
    """What jobs without GPUs may take. None: no limit."""

    slots: int | None = None
    of_a_user: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStart:
    """A job that may start now."""

    job: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """What becomes of the queue."""

    starts: tuple[JobStart, ...]
    because: Mapping[str, str]
    """Why each of the others waits."""


def assign(
    waiting: Iterable[WaitingJob],
    *,
    usable: Sequence[str],
    taken: Mapping[str, tuple[str, tuple[str, ...]]],
    quota: int | None = None,
    cpu: CpuSlots = CpuSlots(),
) -> Assignments:
    """Who may start now.

    ``usable``: the GPUs in service, by UUID. ``taken``: job → (owner, GPUs) of what
    runs. ``quota``: GPUs a user may hold at most.
    """
    held, slots = Counter[str](), Counter[str]()
    for owner, gpus in taken.values():
        held[owner] += len(gpus)
        slots[owner] += not gpus
    busy = {gpu for _, gpus in taken.values() for gpu in gpus}
    free = [gpu for gpu in usable if gpu not in busy]
    starts: list[JobStart] = []
    because: dict[str, str] = {}
    for one in sorted(waiting, key=lambda one: (-one.priority, one.turn)):
        count = _count(one)
        if not count:
            reason = _no_slot(one, slots, cpu)
        else:
            reason = _impossible(one, usable, quota)
        if reason is None and quota is not None and held[one.owner] + count > quota:
            reason = f"{one.owner} holds {held[one.owner]} of {quota} GPUs"
        if reason is not None:
            because[one.job] = reason
            continue
        chosen, reserved = _choose(one, free)
        free = [gpu for gpu in free if gpu not in reserved] if reserved else free
        if chosen is None:
            because[one.job] = _wait(one, len(reserved))
        else:
            held[one.owner] += count
            slots[one.owner] += not count
            starts.append(JobStart(job=one.job, gpus=chosen))
    return Assignments(starts=tuple(starts), because=because)


def _no_slot(one: WaitingJob, taken: Counter[str], cpu: CpuSlots) -> str | None:
    if cpu.of_a_user is not None and taken[one.owner] >= cpu.of_a_user:
        return f"{one.owner} has {taken[one.owner]} jobs without GPUs running, the most a user may"
    if cpu.slots is not None and (running := taken.total()) >= cpu.slots:
        return f"{running} jobs without GPUs run, as many as this box has slots for"
    return None


def takes_another_turn(
    state: JobState,
    cause: Cause | None,
    *,
    counted: bool,
    held: Iterable[str],
    quarantined: Collection[str],
) -> bool:
    """Whether a run that ended like this is to be given other GPUs (rule 6).

    ``cause``: of its last attempt's end. ``counted``: its job said how many GPUs.
    ``held``: those that it had.
    """
    gave_up = counted and state is JobState.GAVE_UP
    failed = cause is not None and ESCALATIONS[cause].quarantines
    return gave_up and failed and any(gpu in quarantined for gpu in held)


def _count(one: WaitingJob) -> int:
    return one.wants if isinstance(one.wants, int) else len(one.wants)


def _impossible(
    one: WaitingJob, usable: Sequence[str], quota: int | None
) -> str | None:
    if isinstance(one.wants, tuple):
        missing = [gpu for gpu in one.wants if gpu not in usable]
        if missing:
            return f"{', '.join(missing)}: no GPU in service is called so"
    count = _count(one)
    if count > len(usable):
        return f"wants {count} GPUs, {len(usable)} are in service"
    if quota is not None and count > quota:
        return f"wants {count} GPUs, a user may hold {quota}"
    return None


def _choose(
    one: WaitingJob, free: Sequence[str]
) -> tuple[tuple[str, ...] | None, frozenset[str]]:
    """The GPUs it gets, if it fits; and those that nobody behind it may have."""
    if isinstance(one.wants, tuple):
        here = frozenset(one.wants).intersection(free)
        return (one.wants if len(here) == len(one.wants) else None), here
    some = tuple(free[: one.wants])
    return (some if len(some) == one.wants else None), frozenset(some)


def _wait(one: WaitingJob, free: int) -> str:
    if isinstance(one.wants, tuple):
        return f"{', '.join(one.wants)}: another job has it"
    return f"wants {one.wants} GPUs, {free} are free"
