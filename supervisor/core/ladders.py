"""The table of remedies: for every cause its ladder, and when another one applies.

Every rung is used only if those before it did not help, do not apply, or change
nothing any more. What alters the computation needs the spec's word.
"""

from collections.abc import Mapping
from dataclasses import replace

from supervisor.core.autopsy import OomVerdict
from supervisor.core.batching import BELOW_FAILED, next_plan
from supervisor.core.causes import Cause
from supervisor.core.ladder import Allow, Case, Change, Ladder, Rung
from supervisor.core.observing import observations
from supervisor.core.placement import named, tenants, usable
from supervisor.core.treatment import MIXED, Awaited, Detour
from supervisor.core.verdicts import RemedyKind

WORKSPACE_MIB = 256
"""cuDNN's own default in TensorFlow is 4 GiB (``conv_ops_gpu.h``)."""
HEADROOM = 0.1
"""Part of a GPU left to the libraries: handles, workspaces and the CUDA context take
some hundred MiB each."""
NEAR_THE_LIMIT = 0.7
"""From this share of the allocator's limit on, a library's failure is for memory."""
SAME_STEP = 1
"""Two failures at most so many steps apart happened at the same step."""
MARGIN_STEPS = 1
"""So many more steps are skipped before and after those where the loss was lost."""
LOWER_RATE = 0.5
LEAK_PART = 0.7
"""A planned restart at this part of the host memory with which it was killed."""
ROOM_FACTOR = 2.0
LEAST_ROOM_BYTES = 64 << 20
"""Room that a new attempt needs: twice the newest snapshot, and some for its output."""


# --- conditions -----------------------------------------------------------------------


def foreign_tenant(case: Case) -> bool:
    """Somebody else holds memory on a GPU of this run."""
    return bool(tenants(case.gpus, gpus=_visible(case), ours=case.evidence.own_pids))


def aged_process(case: Case) -> bool:
    """It did not fail in its first step: a fresh process was not tried yet."""
    return case.evidence.steps_done != 0


def on_a_gpu(case: Case) -> bool:
    """Not the CPU's allocator under our own limit."""
    return not case.evidence.limited


def near_the_limit(case: Case) -> bool:
    """Whether the allocator's memory was nearly used up; unknown counts as yes."""
    memory = case.diagnosis.memory
    used = None if memory is None else memory.in_use_bytes
    limit = None if memory is None else memory.limit_bytes
    return used is None or limit is None or used >= NEAR_THE_LIMIT * limit


def same_step_again(case: Case) -> bool:
    """The attempt before failed for the same cause at the same step."""
    steps = [
        a.last_step for a in case.history.attempts if a.cause is case.diagnosis.cause
    ][-2:]
    if len(steps) < 2 or steps[0] is None or steps[1] is None:
        return False
    return abs(steps[0] - steps[1]) <= SAME_STEP


def another_step(case: Case) -> bool:
    """Not the same step as the last time: progress alone does not make it another."""
    return not same_step_again(case)


def elsewhere(case: Case) -> bool:
    """The loss was not lost at this place in the attempt before."""
    before = case.history.attempts[-2:-1]
    lost = [a.last_step for a in before if a.cause is Cause.NON_FINITE_LOSS]
    return not lost or lost[0] is None or lost[0] < _last_good(case)


def no_gpu(case: Case) -> bool:
    """The run uses no GPU, as far as is known."""
    return not _every(case)


def leaking(case: Case) -> bool:
    """Without what had grown between steps, the request would have been granted."""
    autopsy = case.diagnosis.autopsy
    return autopsy is not None and autopsy.verdict is OomVerdict.LEAK


def leak_seen(case: Case) -> bool:
    """It was killed for host memory before, each time after steps of training."""
    killed = [a for a in case.history.attempts if a.cause is Cause.HOST_OOM][-2:]
    return len(killed) == 2 and all(
        a.rss_bytes is not None and (a.last_step or 0) > (a.restored_step or 0)
        for a in killed
    )


# --- changes --------------------------------------------------------------------------


def smaller_slices(case: Case) -> Change | None:
    """Slices below all that failed."""
    plan = next_plan(observations(case.history), batch=case.history.batch)
    if plan is None:
        return None
    return Change(replace(case.treatment, plan=plan), plan.because)


def _with(**fields: object) -> "Settings":
    return Settings(fields)


class Settings:
    """Sets fields of the treatment; None where they are in force already."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def __call__(self, case: Case) -> Change | None:
        """What it makes of the case's treatment."""
        after = replace(case.treatment, **self._fields)  # type: ignore[arg-type]  # by name
        return None if after == case.treatment else Change(after)


def another_gpu(case: Case) -> Change | None:
    """Without the GPU that failed; None: no other is known."""
    suspects = culprits(case)
    if not suspects:
        return None
    avoid = (*case.treatment.avoid, *suspects)
    left = usable(case.terms.gpus, case.gpus, without=case.quarantined.union(avoid))
    if not left:
        return None
    because = f"{', '.join(suspects)} is left out; {left[0]} takes its place"
    return Change(replace(case.treatment, avoid=avoid), because)


def without_tenants(case: Case) -> Change | None:
    """A GPU that nobody else uses; None: there is none."""
    change = another_gpu(case)
    if change is None:
        return None
    left = usable(
        case.terms.gpus,
        case.gpus,
        without=case.quarantined.union(change.treatment.avoid),
    )
    taken = tenants(case.gpus, gpus=left or (), ours=case.evidence.own_pids)
    return None if taken else change


def wait_for_tenants(case: Case) -> Change:
    """Start again once they are gone."""
    who = tenants(case.gpus, gpus=_visible(case), ours=case.evidence.own_pids)
    listed = ", ".join(f"{one.name} (pid {one.pid})" for one in who[:3])
    awaited = Awaited(tenants_gone=True, patience_seconds=case.terms.patience_seconds)
    because = f"{listed} holds memory on the GPU: wait until it is free"
    return Change(replace(case.treatment, awaited=awaited), because)


def wait_for_room(case: Case) -> Change:
    """Start again once the disk has room."""
    newest = case.evidence.snapshot_bytes or 0
    needed = max(int(ROOM_FACTOR * newest), LEAST_ROOM_BYTES)
    return Change(replace(case.treatment, awaited=Awaited(room_bytes=needed)))


def before_the_loss_was_lost(case: Case) -> Change:
    """Go on from a snapshot of before the first step whose loss may have been bad.

    The loss of a step is computed before its update, so an update may have spoilt the
    weights one step before the loss shows it.
    """
    detour = Detour(restore_before_step=_last_good(case))
    return Change(replace(case.treatment, detour=detour))


def around_the_loss(case: Case) -> Change:
    """As above, and not through the same batches at the same rate."""
    allowed = case.terms.allowed
    good, bad = _last_good(case), _first_bad(case)
    skip = (max(good - MARGIN_STEPS, 0), bad + MARGIN_STEPS)
    detour = Detour(
        restore_before_step=good,
        skip=skip if Allow.SKIP_BATCHES in allowed else None,
        rate_factor=LOWER_RATE if Allow.LOWER_RATE in allowed else 1.0,
    )
    return Change(replace(case.treatment, detour=detour))


def recycled(case: Case) -> Change | None:
    """Planned restarts before host memory runs out."""
    sizes = [
        a.rss_bytes
        for a in case.history.attempts
        if a.cause is Cause.HOST_OOM and a.rss_bytes is not None
    ]
    aim = int(LEAK_PART * min(sizes))
    if case.treatment.recycle_bytes is not None:
        aim = min(aim, int(BELOW_FAILED * case.treatment.recycle_bytes))
    return Change(replace(case.treatment, recycle_bytes=aim))


def culprits(case: Case) -> tuple[str, ...]:
    """The GPU that failed: as the driver names it, else the first one in use."""
    named_by_driver = tuple(g for g in case.evidence.faulty_gpus if g in _every(case))
    return named_by_driver or _visible(case)[:1]


def _every(case: Case) -> tuple[str, ...]:
    return named(case.terms.gpus, case.gpus)


def _visible(case: Case) -> tuple[str, ...]:
    """The GPUs of the attempt, the first being the one that TensorFlow uses."""
    out = case.quarantined.union(case.treatment.avoid)
    return tuple(gpu for gpu in _every(case) if gpu not in out)


def _last_good(case: Case) -> int:
    found = case.evidence.non_finite
    if found is not None and found.last_finite_step is not None:
        return found.last_finite_step
    restored = case.history.last.restored_step if case.history.last else None
    return max(restored or 0, 1)  # nothing finite was seen: from further back


def _first_bad(case: Case) -> int:
    found = case.evidence.non_finite
    return _last_good(case) + 1 if found is None else found.step


# --- the table ------------------------------------------------------------------------

AGAIN = Rung(
    name="again",
    kind=RemedyKind.RESTART,
    does="restart from the newest snapshot",
    because="a fresh process goes on from the newest snapshot",
    uses=None,
)
SMALLER = Rung(
    name="smaller",
    kind=RemedyKind.MICROBATCH,
    does="smaller slices, the same effective batch",
    because="smaller slices need less memory at once",
    change=smaller_slices,
    uses=None,
)
PLANNED = replace(SMALLER, name="planned", does="slices planned by a memory model", uses=2)  # fmt: skip
ANOTHER_GPU = Rung(
    name="another_gpu",
    kind=RemedyKind.ANOTHER_GPU,
    does="stay away from that GPU",
    because="another GPU may not have the fault",
    change=another_gpu,
    when="there is another",
)
GROWTH = Rung(
    name="growth",
    kind=RemedyKind.SETTINGS,
    does=f"memory growth, and {HEADROOM:.0%} of the GPU left to the libraries",
    because="cuDNN and cuBLAS allocate outside of the framework's pool",
    change=_with(growth=True, headroom=HEADROOM),
)
WORKSPACE = Rung(
    name="workspace",
    kind=RemedyKind.SETTINGS,
    does=f"cuDNN workspaces of at most {WORKSPACE_MIB} MiB, autotuning off",
    because="autotuning tries algorithms that want workspaces of gigabytes",
    change=_with(workspace_mib=WORKSPACE_MIB, autotune_off=True),
)
LIBRARY_MEMORY = Ladder(
    title="a library that found no memory for itself",
    rungs=(GROWTH, WORKSPACE, SMALLER),
    stop="the libraries find no memory, not even beside the smallest slices",
    climbs=True,
)
FAULT = Ladder(
    title="a kernel that faulted (cublas, far from the memory limit, as well)",
    rungs=(
        replace(AGAIN, name="same_again", uses=1),
        Rung(
            name="deterministic",
            kind=RemedyKind.SETTINGS,
            does="deterministic algorithms, autotuning off",
            because="the same step failed again: another algorithm may not",
            change=_with(deterministic=True, autotune_off=True),
            when="the same step failed again",
            holds=same_step_again,
        ),
        ANOTHER_GPU,
        AGAIN,
    ),
    stop="neither other algorithms nor another GPU helped: report it upstream, with "
    "the step, the log and the versions",
    climbs=True,
)
BAD_GPU = Ladder(
    title="a GPU that failed",
    rungs=(ANOTHER_GPU,),
    stop="a GPU failed, is quarantined, and no other one is known: have it checked, "
    "then `trainwarden quarantine --return` it",
    quarantines=True,
)
SCRIPT = Ladder(
    title="the script's own error",
    rungs=(
        replace(
            AGAIN,
            when="training had begun, and it was not the same step the last time",
            holds=another_step,
            uses=1,
        ),
    ),
    stop="a restart would end the same way",
)
TENANT = Ladder(
    title="a GPU that somebody else uses too",
    rungs=(
        Rung(
            name="wait",
            kind=RemedyKind.WAIT,
            does="wait until the memory is free, for as long as patience lasts",
            because="somebody else holds memory on the GPU",
            change=wait_for_tenants,
        ),
        replace(
            ANOTHER_GPU,
            name="free_gpu",
            because="another GPU is free",
            change=without_tenants,
            when="another one is free",
        ),
        SMALLER,
    ),
    stop="not even one sample at a time fits beside what others hold on the GPU",
    climbs=True,
)
PLAIN = Ladder(
    title="a crash that a fresh process may not repeat",
    rungs=(AGAIN,),
    stop="restarts did not help",
)

LADDERS: Mapping[Cause, Ladder] = {
    Cause.NONE: PLAIN,
    Cause.DEVICE_OOM: Ladder(
        title="too little device memory",
        rungs=(
            replace(
                AGAIN,
                name="fresh",
                because="a fresh process has given back what had leaked",
                uses=2,
                when="memory had grown from step to step: a leak",
                holds=leaking,
            ),
            PLANNED,
            Rung(
                name="mixed_precision",
                kind=RemedyKind.ALTER,
                does=f"compute in {MIXED}",
                because="activations in 16 bits take half of the memory",
                change=_with(precision=MIXED),
                needs=frozenset({Allow.MIXED_PRECISION}),
            ),
            SMALLER,
        ),
        stop="not even one sample at a time fits below the memory limit",
        climbs=True,
    ),
    Cause.DEVICE_OOM_FRAGMENTATION: Ladder(
        title="device memory in pieces",
        rungs=(
            replace(
                AGAIN,
                name="fresh",
                because="a fresh process has its memory in one piece",
                uses=1,
                when="it was not one already",
                holds=aged_process,
            ),
            Rung(
                name="async_allocator",
                kind=RemedyKind.SETTINGS,
                does="CUDA's own pool (cuda_malloc_async)",
                because="CUDA's pool maps pieces together, so it does not fragment",
                change=_with(async_allocator=True),
                when="on a GPU",
                holds=on_a_gpu,
            ),
            SMALLER,
        ),
        stop="not even one sample at a time finds a block that is large enough",
        climbs=True,
    ),
    Cause.HOST_OOM: Ladder(
        title="too little main memory",
        rungs=(
            Rung(
                name="recycle",
                kind=RemedyKind.SETTINGS,
                does="planned restarts before it runs out, nothing lost",
                because="it grows with every step: a leak",
                change=recycled,
                when="it was killed for memory twice, each time after training",
                holds=leak_seen,
                uses=None,
            ),
            replace(AGAIN, because="a fresh process has given its host memory back"),
        ),
        stop="it runs out of main memory every time",
    ),
    Cause.CUDNN_ALLOC: LIBRARY_MEMORY,
    Cause.CUDNN_INIT: LIBRARY_MEMORY,
    Cause.CUBLAS: LIBRARY_MEMORY,
    Cause.CUDNN_EXEC: FAULT,
    Cause.CUDA_FAULT: FAULT,
    Cause.GPU_HARDWARE: BAD_GPU,
    Cause.UNKILLABLE: Ladder(
        title="a process that hangs in the kernel",
        rungs=(ANOTHER_GPU, replace(AGAIN, when="no GPU is in use", holds=no_gpu)),
        stop="a process hangs in the kernel, which only a reboot ends; its GPU is "
        "quarantined, and no other one is known",
        quarantines=True,
    ),
    Cause.VERSION_MISMATCH: SCRIPT,
    Cause.USER_ERROR: SCRIPT,
    Cause.NCCL: PLAIN,
    Cause.NON_FINITE_LOSS: Ladder(
        title="a loss that is no number",
        rungs=(
            Rung(
                name="rollback",
                kind=RemedyKind.ROLLBACK,
                does="go on from a snapshot of before it",
                because="what came after the loss was lost is no use, and an error "
                "of the hardware does not come again",
                change=before_the_loss_was_lost,
                when="it was not lost there in the attempt before",
                holds=elsewhere,
            ),
            Rung(
                name="around",
                kind=RemedyKind.ALTER,
                does="as before, without these batches, at a lower learning rate "
                "(whichever is allowed)",
                because="the same batches at the same rate lose the loss again",
                change=around_the_loss,
                needs=frozenset({Allow.SKIP_BATCHES, Allow.LOWER_RATE}),
            ),
        ),
        stop="the loss is lost again in the same place: look at the data of that step "
        "and at the learning rate",
    ),
    Cause.DATA_ERROR: Ladder(
        title="data that cannot be read",
        rungs=(
            replace(
                AGAIN,
                because="storage may have been away for a moment",
                when="it was not the same step the last time",
                holds=another_step,
                uses=1,
            ),
        ),
        stop="the same data cannot be read again",
    ),
    Cause.DISK_FULL: Ladder(
        title="a full disk",
        rungs=(
            Rung(
                name="room",
                kind=RemedyKind.WAIT,
                does="free what is ours and of no more use, wait for room",
                because="it goes on as soon as there is room on the disk",
                change=wait_for_room,
                uses=None,
            ),
        ),
        stop="the disk fills up again at once",
    ),
    Cause.STALLED: replace(
        PLAIN,
        title="alive without progress: stacks of all threads are written down, it is killed",
        stop="it hangs every time",
    ),
    Cause.NATIVE_CRASH: PLAIN,
    Cause.PREEMPTED: replace(
        PLAIN,
        title="ended from outside",
        rungs=(
            replace(
                AGAIN,
                because="nothing was wrong with training: go on from the newest "
                "snapshot",
            ),
        ),
    ),
    Cause.UNKNOWN: PLAIN,
}
"""By cause; every cause has one."""


def ladder_for(case: Case) -> Ladder:
    """The ladder of the case's cause, or the one of what stands behind it."""
    cause = case.diagnosis.cause
    if cause in {Cause.DEVICE_OOM, Cause.DEVICE_OOM_FRAGMENTATION, *_LIBRARY}:
        if foreign_tenant(case):
            return TENANT
        if cause is Cause.CUBLAS and not near_the_limit(case):
            return FAULT
    return LADDERS[cause]


_LIBRARY = frozenset(cause for cause, one in LADDERS.items() if one is LIBRARY_MEMORY)
