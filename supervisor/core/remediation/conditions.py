"""Conditions of remedy steps, asked of a failed attempt."""

import itertools
from collections.abc import Collection

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.examination import unsliceable
from supervisor.core.diagnosis.memory_shortage import no_room_to_begin
from supervisor.core.gpu.assignment import named, tenants, with_parts
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.memory.figures import OomVerdict
from supervisor.core.memory.oom_analysis import CONTEXT_BYTES
from supervisor.core.remediation.escalation import FailureContext
from supervisor.core.remediation.microbatch_planner import UnslicedPart, unsliced_part
from supervisor.core.remediation.observations import observations

NEAR_THE_LIMIT = 0.7
"""From this share of the allocator's limit on, a library's failure is for memory."""
UNSURE_BYTES = 2**30
"""Of what a context and a framework's libraries take, and of what they leave unused: with
less to spare it is not known whether there was room. On an H200 a process that had 2 MiB
was refused 288 MiB where, by its figures, 1.5 GiB were left beside another one."""
SAME_STEP = 1
"""Two failures at most so many steps apart happened at the same step."""


# --- where it failed -----------------------------------------------------------------


def culprits(case: FailureContext) -> tuple[str, ...]:
    """The GPU that this run should leave: as the driver names it, else the first in use.
    None where the attempt is not known to have been on any."""
    told = named_by_driver(case)
    if told or not case.evidence.uses_gpu:
        return told
    return visible_gpus(case)[:1]


def named_by_driver(case: FailureContext) -> tuple[str, ...]:
    """The GPUs of the run that driver or kernel say have failed: with each all MIG devices
    that are part of it. Nobody else's word keeps a GPU from everybody: a run may print
    what it likes."""
    allowed = every_gpu(case)
    failed = (with_parts(gpu, case.gpus) for gpu in case.evidence.faulty_gpus)
    return tuple(
        name
        for names in failed
        if any(one in allowed for one in names)
        for name in names
    )


def every_gpu(case: FailureContext) -> tuple[str, ...]:
    """All that the spec allows, by UUID where known."""
    return named(case.terms.gpus, case.gpus)


def visible_gpus(case: FailureContext) -> tuple[str, ...]:
    """The GPUs of the attempt, the first being the one that TensorFlow uses."""
    out = case.quarantined.union(case.overrides.avoid)
    return tuple(gpu for gpu in every_gpu(case) if gpu not in out)


def last_good_step(case: FailureContext) -> int:
    """The newest step whose loss was seen to be finite; further back if there is none."""
    found = case.evidence.non_finite
    if found is not None and found.last_finite_step is not None:
        return found.last_finite_step
    restored = case.history.last.restored_step if case.history.last else None
    return max(restored or 0, 1)  # nothing finite was seen: from further back


def first_bad_step(case: FailureContext) -> int:
    """The step at which the loss was seen to be lost."""
    found = case.evidence.non_finite
    return last_good_step(case) + 1 if found is None else found.step


# --- conditions ----------------------------------------------------------------------


def foreign_tenant(case: FailureContext) -> bool:
    """Somebody else holds memory on a GPU of this run, and that is what ran out: not
    where more was asked for than the GPU has, nor where there was room beside them."""
    if not on_a_gpu(case) or oversize(case) or has_room_beside(case):
        return False
    return bool(
        tenants(case.gpus, gpus=visible_gpus(case), ours=case.evidence.own_pids)
    )


def has_room_beside(case: FailureContext) -> bool:
    """Whether every GPU of the attempt clearly had room for what was asked for beside all
    that others hold there: then a limit of the attempt's own is what was reached. False:
    not, or not known."""
    memory = case.diagnosis.memory
    if memory is None or memory.requested_bytes is None:
        return False
    held = memory.pool_bytes or memory.in_use_bytes
    if held is None:
        return False
    needed = held + memory.requested_bytes + CONTEXT_BYTES + UNSURE_BYTES
    mine, ours = visible_gpus(case), case.evidence.own_pids
    seen = [gpu for gpu in case.gpus if gpu.uuid in mine]
    return bool(seen) and all(_has_room(gpu, needed, ours=ours) for gpu in seen)


def _has_room(gpu: Gpu, needed: int, *, ours: Collection[int]) -> bool:
    if gpu.memory is None or gpu.processes is None:
        return False
    others = [one.bytes for one in gpu.processes if one.pid not in ours]
    known = [one for one in others if one is not None]
    usable = gpu.memory.total - (gpu.memory.reserved or 0)
    return len(known) == len(others) and needed + sum(known) <= usable


def device_full(case: FailureContext) -> bool:
    """Others had filled the device before the attempt had anything there: nothing of its
    own can be made smaller."""
    return no_room_to_begin(case.diagnosis, case.evidence)


def crowded_whole(case: FailureContext) -> bool:
    """Others hold what was missing, the driver does not name them, and the batch is not
    sliced: a later start may find them gone, and nothing else helps."""
    others = _verdict(case) is OomVerdict.FOREIGN_TENANT
    return others and unsliceable(case.evidence) and not foreign_tenant(case)


def scripts_precision(case: FailureContext) -> bool:
    """The spec sets none, which may be as low as that of a remedy."""
    return case.terms.precision is None


def oversize(case: FailureContext) -> bool:
    """A single request was larger than the whole limit."""
    return _verdict(case) is OomVerdict.OVERSIZE


def _verdict(case: FailureContext) -> OomVerdict | None:
    return None if case.diagnosis.autopsy is None else case.diagnosis.autopsy.verdict


def aged_process(case: FailureContext) -> bool:
    """It did not fail in its first step: a fresh process was not tried yet."""
    return case.evidence.steps_done != 0


def on_a_gpu(case: FailureContext) -> bool:
    """Not the CPU's allocator under our own limit."""
    return not case.evidence.limited


def near_the_limit(case: FailureContext) -> bool:
    """Whether the allocator's memory was nearly used up; unknown counts as yes."""
    memory = case.diagnosis.memory
    used = None if memory is None else memory.in_use_bytes
    limit = None if memory is None else memory.limit_bytes
    return used is None or limit is None or used >= NEAR_THE_LIMIT * limit


def same_step_again(case: FailureContext) -> bool:
    """The attempt before failed for the same cause at the same step."""
    steps = [
        a.last_step for a in case.history.attempts if a.cause is case.diagnosis.cause
    ][-2:]
    if len(steps) < 2 or steps[0] is None or steps[1] is None:
        return False
    return abs(steps[0] - steps[1]) <= SAME_STEP


def full_in_a_row(case: FailureContext) -> int:
    """The newest attempts, one after another, that ended for want of room on a disk."""
    ended = [one.cause for one in reversed(case.history.attempts)]
    full = itertools.takewhile(lambda cause: cause is Cause.DISK_FULL, ended)
    return max(len(list(full)), 1)


def another_step(case: FailureContext) -> bool:
    """Not the same step as the last time: progress alone does not make it another."""
    return not same_step_again(case)


def elsewhere(case: FailureContext) -> bool:
    """The loss was not lost at this place in the attempt before."""
    before = case.history.attempts[-2:-1]
    lost = [a.last_step for a in before if a.cause is Cause.NON_FINITE_LOSS]
    return not lost or lost[0] is None or lost[0] < last_good_step(case)


def no_gpu(case: FailureContext) -> bool:
    """The run uses no GPU, as far as is known."""
    return not (case.evidence.uses_gpu and every_gpu(case))


def leaking(case: FailureContext) -> bool:
    """Without what had grown between steps, the request would have been granted."""
    return _verdict(case) is OomVerdict.LEAK


def unsliced(case: FailureContext) -> UnslicedPart | None:
    """What takes nearly all of the limit, and does not shrink with slices; None: nothing
    that is known of does."""
    return unsliced_part(observations(case.history), batch=case.history.batch)


def leak_seen(case: FailureContext) -> bool:
    """It was killed for host memory before, each time after steps of training.

    What leaks is as large after as many steps, wherever they began; what fails at one step
    whatever was made before it asks for too much there, and needs no leak.
    """
    killed = [a for a in case.history.attempts if a.cause is Cause.HOST_OOM][-2:]
    made = [(a.last_step or 0) - (a.restored_step or 0) for a in killed]
    grew = [
        a.rss_bytes is not None and n > 0 for a, n in zip(killed, made, strict=True)
    ]
    if len(killed) < 2 or not all(grew):
        return False
    return not same_step_again(case) or abs(made[0] - made[1]) <= SAME_STEP
