"""Every cause has its escalation, and every remedy step its condition."""

from dataclasses import replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Killed, NonFinite
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.fit_memory import FitMemory, SizePeaks
from supervisor.core.remediation.actions import disk_room
from supervisor.core.remediation.escalation import Allow
from supervisor.core.remediation.overrides import MIXED, Awaited, LossRecovery
from supervisor.core.remediation.remedy_table import ESCALATIONS
from supervisor.wire.reasons import KillReason
from supervisor.wire.records.end_records import CrashReport
from tests.support.stories import GIB, Story


def test_every_cause_has_a_escalation_whose_remedy_steps_have_names_of_their_own() -> (
    None
):
    """The history tells remedy steps apart by their names."""
    assert set(ESCALATIONS) == set(Cause)
    for escalation in ESCALATIONS.values():
        names = [remedy_step.name for remedy_step in escalation.remedy_steps]
        assert len(set(names)) == len(names)
        assert escalation.stop
        assert all(
            remedy_step.does and remedy_step.because
            for remedy_step in escalation.remedy_steps
        )


@pytest.mark.parametrize(
    ("cause", "remedy_steps"),
    [
        (Cause.DEVICE_OOM, ["planned", "planned", "smaller", None]),
        (
            Cause.DEVICE_OOM_FRAGMENTATION,
            ["fresh", "async_allocator", "smaller", None],
        ),
        (Cause.CUDNN_ALLOC, ["growth", "workspace", "smaller", None]),
        (Cause.CUDNN_INIT, ["growth", "workspace", "smaller", None]),
        (Cause.CUBLAS, ["growth", "workspace", "smaller", None]),
        (Cause.CUDNN_EXEC, ["same_again", "deterministic", "again", None]),
        (Cause.CUDA_FAULT, ["same_again", "deterministic", "again", None]),
        (Cause.GPU_HARDWARE, [None]),
        (Cause.UNKILLABLE, ["again", "again", "again", None]),
        (Cause.HOST_OOM, ["again", "again", "again", None]),
        (Cause.NON_FINITE_LOSS, ["rollback", None]),
        (Cause.DATA_ERROR, ["again", None]),
        (Cause.DISK_FULL, ["room", "room", "room", None]),
        (Cause.USER_ERROR, ["again", None]),
        (Cause.VERSION_MISMATCH, ["again", None]),
        (Cause.STALLED, ["again", "again", "again", None]),
        (Cause.NATIVE_CRASH, ["again", "again", "again", None]),
        (Cause.NCCL, ["again", "again", "again", None]),
        (Cause.PREEMPTED, ["again", "again", "again", None]),
        (Cause.UNKNOWN, ["again", "again", "again", None]),
    ],
)
def test_the_table(cause: Cause, remedy_steps: list[str | None]) -> None:
    """On a box whose GPUs nobody can see, without any opt-in, and never any progress."""
    assert Story(cause).remedy_steps(len(remedy_steps)) == remedy_steps


def test_settings_add_up() -> None:
    """A remedy leaves in force what the one before it set."""
    story = Story(Cause.CUDNN_INIT)
    first, second = story.fail(), story.fail()
    assert first.remedy.changes == {
        "memory growth": ["as the script says", "on"],
        "headroom": [None, "10%"],
    }
    assert second.overrides.growth
    assert second.overrides.workspace_mib is not None
    assert second.overrides.autotune_off
    assert "headroom" not in second.remedy.changes


def test_a_setting_in_force_is_not_tried_again_after_progress() -> None:
    """Growth is on; what comes next is the next remedy step."""
    story = Story(Cause.CUDNN_ALLOC)
    assert story.fail(snapshot=0).remedy_step == "growth"
    assert story.fail(snapshot=50).remedy_step == "workspace"
    assert story.fail(snapshot=90).remedy_step == "smaller"


def test_a_escalation_that_climbs_does_so_through_progress() -> None:
    """A fresh process helped for a while; where it fragments again, the allocator is
    the next thing. A loss that is lost elsewhere begins at the bottom again."""
    story = Story(Cause.DEVICE_OOM_FRAGMENTATION)
    assert story.fail(snapshot=10).remedy_step == "fresh"
    assert story.fail(snapshot=20).remedy_step == "async_allocator"
    assert story.fail(snapshot=30).remedy_step == "smaller"


def test_a_escalation_that_climbed_to_its_end_begins_anew_after_progress() -> None:
    """A run that moves on is never given up for want of remedies."""
    story = Story(Cause.CUDA_FAULT)
    taken = [story.fail(snapshot=n * 10, step=n * 10 + 5).remedy_step for n in range(6)]
    assert taken[0] == "same_again"
    assert None not in taken


def test_mixed_precision_only_if_the_person_allows_it() -> None:
    """It changes the computation, and the incident says so."""
    story = Story(Cause.DEVICE_OOM, allowed=frozenset({Allow.MIXED_PRECISION}))
    assert story.remedy_steps(2) == ["planned", "planned"]
    verdict = story.fail()
    assert verdict.remedy.kind is RemedyKind.ALTER
    assert verdict.overrides.precision == MIXED
    assert verdict.remedy.changes["precision"] == ["the script's", MIXED]


def test_a_single_sample_can_still_be_computed_in_16_bits() -> None:
    """Where slices can help no more, precision is the next thing, then nothing."""
    story = Story(Cause.DEVICE_OOM, batch=1, allowed=frozenset(Allow))
    assert story.remedy_steps(2) == ["mixed_precision", None]


@pytest.mark.parametrize(
    ("allowed", "kind"),
    [
        (frozenset[Allow](), RemedyKind.STOP),
        (frozenset({Allow.MIXED_PRECISION}), RemedyKind.ALTER),
    ],
)
def test_slices_are_not_cut_further_in_vain(
    allowed: frozenset[Allow], kind: RemedyKind
) -> None:
    """Two samples a slice need as much as four did, in a second process too: no smaller one
    is tried, and the run ends with what takes the memory, and what helps; or does what is allowed of it."""
    mib = 1 << 20
    peaks = tuple(
        SizePeaks(slice_size=size, usual_bytes=88 * mib, highest_bytes=89 * mib)
        for size in (2, 4)
    )
    fit = FitMemory(slice_size=2, limit_bytes=90 * mib, peaks=peaks)
    story = Story(Cause.DEVICE_OOM, batch=128, allowed=allowed)
    assert story.fail(fit=fit).remedy.kind is RemedyKind.MICROBATCH  # it may do
    decided = story.fail(fit=fit)
    assert decided.remedy.kind is kind
    if kind is RemedyKind.STOP:
        assert decided.remedy.because.startswith(
            "more slices cannot help: a step filled about 88 MiB of the limit of 90 MiB"
        )
        assert "a larger limit can" in decided.remedy.because


def test_fragmentation_under_our_own_limit_has_no_allocator_to_switch_to() -> None:
    """cuda_malloc_async is for GPUs."""
    story = Story(Cause.DEVICE_OOM_FRAGMENTATION)
    assert story.remedy_steps(2, limited=True) == ["fresh", "smaller"]


def test_cublas_far_from_the_limit_is_a_fault() -> None:
    """Memory was there: what failed is the kernel or the GPU."""
    roomy = MemoryFigures(limit_bytes=100, in_use_bytes=10)
    tight = MemoryFigures(limit_bytes=100, in_use_bytes=95)
    assert Story(Cause.CUBLAS).fail(memory=roomy).remedy_step == "same_again"
    assert Story(Cause.CUBLAS).fail(memory=tight).remedy_step == "growth"
    unknown = MemoryFigures(limit_bytes=None, in_use_bytes=10)
    assert Story(Cause.CUBLAS).fail(memory=unknown).remedy_step == "growth"


def test_where_the_step_is_not_known_it_is_not_called_the_same() -> None:
    """Unknown is no number."""
    story = Story(Cause.CUDA_FAULT)
    assert story.remedy_steps(2, step=None) == ["same_again", "again"]


def test_a_leak_is_met_with_planned_restarts() -> None:
    """Killed for memory twice after training: then before it comes to that."""
    story = Story(Cause.HOST_OOM)
    assert story.fail(rss=10 * GIB, step=100, snapshot=90).remedy_step == "again"
    verdict = story.fail(rss=8 * GIB, step=200, snapshot=190)
    assert verdict.remedy_step == "recycle"
    assert verdict.overrides.recycle_bytes == int(0.7 * 8 * GIB)
    again = story.fail(rss=8 * GIB, step=300, snapshot=290)
    assert (again.overrides.recycle_bytes or 0) < int(0.7 * 8 * GIB)


def test_what_was_killed_without_training_is_no_leak() -> None:
    """Too large from the start, or not known how large."""
    story = Story(Cause.HOST_OOM)
    assert story.remedy_steps(2, rss=GIB, step=0, snapshot=0) == ["again", "again"]
    unknown = Story(Cause.HOST_OOM)
    assert unknown.remedy_steps(2, rss=None, step=9, snapshot=1) == ["again", "again"]


def test_what_asks_for_too_much_at_one_step_is_no_leak() -> None:
    """It fails there after 97 steps as after one: nothing grew to it."""
    story = Story(Cause.HOST_OOM)
    story.fail(rss=8 * GIB, step=97, snapshot=None)
    assert story.fail(rss=6 * GIB, step=97, snapshot=96).remedy_step == "again"


def test_a_leak_that_begins_anew_each_time_is_one_at_the_same_step_as_well() -> None:
    """Without a snapshot the same number of steps ends at the same step."""
    story = Story(Cause.HOST_OOM)
    story.fail(rss=8 * GIB, step=97, snapshot=None)
    assert story.fail(rss=8 * GIB, step=98, snapshot=None).remedy_step == "recycle"


LOST = NonFinite(last_finite_step=100, step=104, because="the loss is nan")


def test_a_lost_loss_goes_back_before_the_last_good_step() -> None:
    """The update of the last finite step may be the one that spoilt the weights."""
    verdict = Story(Cause.NON_FINITE_LOSS).fail(step=104, non_finite=LOST)
    assert verdict.remedy.kind is RemedyKind.ROLLBACK
    assert verdict.overrides.detour == LossRecovery(restore_before_step=100)


def test_without_a_finite_step_it_goes_back_further_than_it_began() -> None:
    """The snapshot itself may hold it."""
    never = NonFinite(last_finite_step=None, step=51, because="x")
    verdict = Story(Cause.NON_FINITE_LOSS).fail(step=51, snapshot=50, non_finite=never)
    assert verdict.overrides.detour == LossRecovery(restore_before_step=50)
    bare = Story(Cause.NON_FINITE_LOSS).fail(step=None, snapshot=None)
    assert bare.overrides.detour == LossRecovery(restore_before_step=1)


@pytest.mark.parametrize(
    ("allowed", "detour"),
    [
        ({Allow.SKIP_BATCHES}, LossRecovery(restore_before_step=100, skip=(99, 105))),
        ({Allow.LOWER_RATE}, LossRecovery(restore_before_step=100, rate_factor=0.5)),
        (
            set(Allow),
            LossRecovery(restore_before_step=100, skip=(99, 105), rate_factor=0.5),
        ),
    ],
)
def test_the_same_place_again_is_gone_round_if_that_is_allowed(
    allowed: set[Allow], detour: LossRecovery
) -> None:
    """Batches and rate are the person's to change."""
    story = Story(Cause.NON_FINITE_LOSS, allowed=frozenset(allowed))
    assert story.fail(step=104, non_finite=LOST).remedy_step == "rollback"
    verdict = story.fail(step=104, snapshot=1, non_finite=LOST)
    assert verdict.remedy.kind is RemedyKind.ALTER
    assert verdict.overrides.detour == detour
    last = story.fail(step=104, snapshot=1, non_finite=LOST)
    assert last.remedy.kind is RemedyKind.STOP


def test_another_place_is_another_rollback() -> None:
    """A loss that was lost a thousand steps later is another accident."""
    story = Story(Cause.NON_FINITE_LOSS)
    assert story.fail(step=104, non_finite=LOST).remedy_step == "rollback"
    later = NonFinite(last_finite_step=1100, step=1104, because="x")
    verdict = story.fail(step=1104, snapshot=1090, non_finite=later)
    assert verdict.remedy_step == "rollback"
    assert verdict.overrides.detour == LossRecovery(restore_before_step=1100)


def test_data_that_cannot_be_read_twice_are_named() -> None:
    """The last sentence of the run says which record it was."""
    story = Story(Cause.DATA_ERROR)
    assert story.fail().remedy_step == "again"
    because = story.fail().remedy.because
    assert "cannot be read or written again: record 17 is corrupt" in because


@pytest.mark.parametrize("cause", [Cause.DATA_ERROR, Cause.USER_ERROR])
def test_a_newer_snapshot_makes_no_other_record_of_it(cause: Cause) -> None:
    """It failed at the same step, only from nearer: the same again, so stop."""
    story = Story(cause)
    assert story.fail(step=40, snapshot=20).remedy_step == "again"
    assert story.fail(step=40, snapshot=38).remedy.kind is RemedyKind.STOP
    elsewhere = Story(cause)
    assert elsewhere.fail(step=40, snapshot=20).remedy_step == "again"
    assert elsewhere.fail(step=90, snapshot=80).remedy_step == "again"


def test_a_full_disk_waits_for_twice_the_newest_snapshot() -> None:
    """And for no less than some output needs."""
    big = Story(Cause.DISK_FULL).fail(snapshot_bytes=GIB)
    assert big.overrides.awaited == Awaited(room_bytes=2 * GIB)
    small = Story(Cause.DISK_FULL).fail()
    assert small.overrides.awaited == Awaited(room_bytes=64 << 20)


def test_a_full_disk_of_the_script_s_own_is_waited_for_as_well() -> None:
    """Named, and for more room after each time in a row: 64 MiB at most at first, and
    never more than half of the disk."""
    crash = CrashReport(
        exception="OSError", message="[Errno 28] No space left on device", traceback="",
        steps_done=5, in_fit=True, full_disk="/data", full_disk_free_bytes=4096,
        full_disk_bytes=GIB, full_disk_named=True,
    )  # fmt: skip
    story = Story(Cause.DISK_FULL)
    first = story.fail(crash=crash)
    own = Awaited(room_bytes=64 << 20, disk="/data", disk_bytes=64 << 20)
    assert first.overrides.awaited == own
    assert first.remedy.because.startswith(
        "the disk mounted at /data was full (4 KiB free): it goes on as soon as 64 MiB are"
        " free there"
    )
    again = story.fail(crash=crash).overrides.awaited
    assert again is not None
    assert again.disk_bytes == 128 << 20
    small = replace(crash, full_disk_bytes=40 << 20)
    needed = [disk_room(small.full_disk_bytes, failures=n) >> 20 for n in (1, 2, 3, 99)]
    assert needed == [10, 20, 20, 20]
    guessed = Story(Cause.DISK_FULL).fail(crash=replace(crash, full_disk_named=False))
    assert guessed.overrides.awaited == replace(own, patience_seconds=7200.0)
    assert "or after 2 h 00 min all the same" in guessed.remedy.because


def test_which_disk_was_full_may_not_be_known() -> None:
    """Then only that of snapshots is looked at, and that is said."""
    because = Story(Cause.DISK_FULL).fail().remedy.because
    assert "which disk was full is not known" in because


def test_memory_refused_by_autotuning_ends_autotuning() -> None:
    """It would wait for memory again at each algorithm that it tries."""
    killed = Killed(reason=KillReason.REFUSED, sentence="memory ran out 8 times")
    story = Story(Cause.DEVICE_OOM)
    first = story.fail(killed=killed)
    assert first.remedy_step == "planned"
    assert first.overrides.autotune_off
    assert "autotuning is off" in first.remedy.because
    assert not Story(Cause.DEVICE_OOM).fail().overrides.autotune_off
