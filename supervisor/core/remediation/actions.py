"""Actions of remedy steps: what they make of the overrides that were in force."""

from collections.abc import Callable
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.gpu.assignment import tenants, usable
from supervisor.core.remediation.conditions import (
    culprits,
    first_bad_step,
    full_in_a_row,
    last_good_step,
    unsliced,
    visible_gpus,
)
from supervisor.core.remediation.escalation import Allow, Change, FailureContext
from supervisor.core.remediation.microbatch_planner import BELOW_FAILED, next_plan
from supervisor.core.remediation.observations import observations
from supervisor.core.remediation.overrides import Awaited, LossRecovery
from supervisor.core.text.units import format_duration, format_size
from supervisor.wire.reasons import KillReason

UNTUNED = (
    "autotuning is off from here on, which waits ten seconds for memory at each algorithm"
    " that it tries"
)
MARGIN_STEPS = 1
"""So many more steps are skipped before and after those where the loss was lost."""
LOWER_RATE = 0.5
LEAK_PART = 0.7
"""A planned restart at this part of the host memory with which it was killed."""
ROOM_FACTOR = 2.0
LEAST_ROOM_BYTES = 64 << 20
"""Room that a new attempt needs: twice the newest snapshot, and some for its output."""
UNKNOWN_DISK = (
    "which disk was full is not known: it goes on as soon as there is room where its"
    " snapshots and output go"
)
FULL_DISK = (
    "the disk mounted at {} was full ({} free): it goes on as soon as {} are free there"
)
GUESSED = (
    ", or after {} all the same: the error names no file, so another may be the one"
)
GUESS_SECONDS = 7200.0
"""A disk may be full that has nothing to do with the script."""


def smaller_slices(case: FailureContext) -> Change | None:
    """Slices below all that failed; None: they would need as much."""
    if unsliced(case) is not None:
        return None
    plan = next_plan(observations(case.history), batch=case.history.batch)
    if plan is None:
        return None
    killed = case.evidence.killed
    if killed is None or killed.reason is not KillReason.REFUSED:
        return Change(replace(case.overrides, plan=plan), plan.because)
    after = replace(case.overrides, plan=plan, autotune_off=True)
    return Change(after, f"{plan.because}; {UNTUNED}")


def settings(**fields: object) -> Callable[[FailureContext], Change | None]:
    """Sets these fields of the overrides; None where they are in force already."""

    def change(case: FailureContext) -> Change | None:
        after = replace(case.overrides, **fields)  # type: ignore[arg-type]  # by name
        return None if after == case.overrides else Change(after)

    return change


def another_gpu(case: FailureContext) -> Change | None:
    """Without the GPU that failed; None: no other is known."""
    suspects = culprits(case)
    if not suspects:
        return None
    avoid = (*case.overrides.avoid, *suspects)
    left = usable(case.terms.gpus, case.gpus, without=case.quarantined.union(avoid))
    if not left:
        return None
    because = f"{', '.join(suspects)} is left out; {left[0]} takes its place"
    return Change(replace(case.overrides, avoid=avoid), because)


def without_tenants(case: FailureContext) -> Change | None:
    """A GPU that nobody else uses; None: there is none."""
    change = another_gpu(case)
    if change is None:
        return None
    left = usable(
        case.terms.gpus,
        case.gpus,
        without=case.quarantined.union(change.overrides.avoid),
    )
    taken = tenants(case.gpus, gpus=left or (), ours=case.evidence.own_pids)
    return None if taken else change


def wait_for_tenants(case: FailureContext) -> Change:
    """Start again once they are gone."""
    who = tenants(case.gpus, gpus=visible_gpus(case), ours=case.evidence.own_pids)
    listed = ", ".join(f"{one.name} (pid {one.pid})" for one in who[:3])
    awaited = Awaited(tenants_gone=True, patience_seconds=case.terms.patience_seconds)
    because = f"{listed} holds memory on the GPU: wait until it is free"
    return Change(replace(case.overrides, awaited=awaited), because)


def wait_for_room(case: FailureContext) -> Change:
    """Start again once there is room: on the disk of snapshots and output, and on that
    which was full as the script ended."""
    newest = case.evidence.snapshot_bytes or 0
    needed = max(int(ROOM_FACTOR * newest), LEAST_ROOM_BYTES)
    awaited = Awaited(room_bytes=needed)
    crash = case.evidence.crash
    if crash is None or crash.full_disk is None:
        return Change(replace(case.overrides, awaited=awaited), UNKNOWN_DISK)
    there = disk_room(crash.full_disk_bytes, failures=full_in_a_row(case))
    patience = None if crash.full_disk_named else GUESS_SECONDS
    awaited = replace(
        awaited,
        disk=crash.full_disk,
        disk_bytes=there,
        patience_seconds=patience,
    )
    because = FULL_DISK.format(
        crash.full_disk, format_size(crash.full_disk_free_bytes), format_size(there)
    )
    if patience is not None:
        because += GUESSED.format(format_duration(patience))
    return Change(replace(case.overrides, awaited=awaited), because)


def disk_room(size_bytes: int, *, failures: int) -> int:
    """Bytes that have to be free on a disk of the script's own before it writes there
    again: how much it writes nobody knows, so more after each of ``failures`` in a row."""
    least = min(LEAST_ROOM_BYTES, size_bytes // 4)
    doublings = max(min(failures, 32), 1) - 1
    return min(least << doublings, size_bytes // 2)


def before_the_loss_was_lost(case: FailureContext) -> Change:
    """Go on from a snapshot of before the first step whose loss may have been bad.

    The loss of a step is computed before its update, so an update may have spoilt the
    weights one step before the loss shows it.
    """
    detour = LossRecovery(restore_before_step=last_good_step(case))
    return Change(replace(case.overrides, detour=detour))


def around_the_loss(case: FailureContext) -> Change:
    """As above, and not through the same batches at the same rate."""
    allowed = case.terms.allowed
    good, bad = last_good_step(case), first_bad_step(case)
    skip = (max(good - MARGIN_STEPS, 0), bad + MARGIN_STEPS)
    detour = LossRecovery(
        restore_before_step=good,
        skip=skip if Allow.SKIP_BATCHES in allowed else None,
        rate_factor=LOWER_RATE if Allow.LOWER_RATE in allowed else 1.0,
    )
    return Change(replace(case.overrides, detour=detour))


def recycled(case: FailureContext) -> Change | None:
    """Planned restarts before host memory runs out."""
    sizes = [
        a.rss_bytes
        for a in case.history.attempts
        if a.cause is Cause.HOST_OOM and a.rss_bytes is not None
    ]
    aim = int(LEAK_PART * min(sizes))
    if case.overrides.recycle_bytes is not None:
        aim = min(aim, int(BELOW_FAILED * case.overrides.recycle_bytes))
    return Change(replace(case.overrides, recycle_bytes=aim))
