"""The next peak is told where it will not fit, and nothing is where it does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.next_peak import (
    MemoryAhead,
    PhaseNeeds,
    in_use_now,
    needed,
    next_peak,
)
from supervisor.core.advisories.rules import advise
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.wire.readings import AllocatorReading
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak

MIB = 2**20
LIMIT = 900 * MIB
EPOCH = EpochMemory(step=41, in_use_bytes=650 * MIB, validation_epochs=0)
sizes = st.integers(0, 2 * LIMIT)


def peak(phase: PeakPhase, *, between: int, high: int, before: int = 0) -> PhasePeak:
    """A phase that is over, in MiB."""
    return PhasePeak(
        phase=phase,
        between_bytes=between * MIB,
        before_bytes=before * MIB,
        peak_bytes=high * MIB,
        limit_bytes=LIMIT,
    )


def ahead(*peaks: PhasePeak, epoch: EpochMemory | None = EPOCH) -> MemoryAhead:
    """What is to come in an epoch of which 40 of 50 steps are left."""
    needs = PhaseNeeds(epoch=epoch)
    for one in peaks:
        needs = needs.and_then(one)
    return MemoryAhead(
        needs=needs,
        in_use_bytes=650 * MIB,
        limit_bytes=LIMIT,
        steps_left=40,
        steps_per_epoch=50,
    )


def twice(phase: PeakPhase, need: int) -> tuple[PhasePeak, PhasePeak]:
    """Two times of a phase that needs so many MiB."""
    return (
        peak(phase, between=100, high=100 + need),
        peak(phase, between=200, high=200 + need, before=100 + need),
    )


VALIDATIONS = twice(PeakPhase.VALIDATION, 310)


def told(of: MemoryAhead) -> list[Advisory]:
    """What is said of it."""
    return list(advise(RunEvidence(ahead=of)))


def test_a_validation_that_will_not_fit_is_told() -> None:
    """What it needs, what is left, and when it comes."""
    (one,) = told(ahead(*VALIDATIONS))
    assert one.kind is AdvisoryKind.NEXT_PEAK
    assert one.sentence == (
        "the last validations needed at least 310 MiB beyond what lies between steps, and"
        " 250 MiB of 900 MiB are left now: the next one, at the end of this epoch (in about"
        " 40 steps), will probably not fit"
    )
    assert one.figures == {
        "need_bytes": 310 * MIB,
        "in_use_bytes": 650 * MIB,
        "left_bytes": 250 * MIB,
        "limit_bytes": LIMIT,
        "steps": 40,
    }
    assert "validation_batch_size" in one.advice


def test_it_is_quiet_where_it_fits() -> None:
    """Also where it fits to the byte."""
    seen = ahead(*VALIDATIONS)
    fits = replace(seen, in_use_bytes=590 * MIB)
    assert told(fits) == []
    assert told(replace(fits, in_use_bytes=590 * MIB + 1)) != []


@pytest.mark.parametrize(
    ("epochs", "when"),
    [
        (1, "the next one, at the end of the next epoch (in about 90 steps), will"),
        (3, "the next one, 3 epochs after this one (in about 190 steps), will"),
    ],
)
def test_validations_may_be_seldom(epochs: int, when: str) -> None:
    """It is said at the end of which epoch the next one comes."""
    epoch = replace(EPOCH, validation_epochs=epochs)
    (one,) = told(ahead(*VALIDATIONS, epoch=epoch))
    assert when in one.sentence


def test_no_validation_is_told_of_where_none_is_left() -> None:
    """Nor before an epoch has begun whose memory is known."""
    last = replace(EPOCH, validation_epochs=None)
    assert told(ahead(*VALIDATIONS, epoch=last)) == []
    assert told(ahead(*VALIDATIONS, epoch=None)) == []


def test_callbacks_of_the_end_of_an_epoch_are_told_too() -> None:
    """Where the number of steps is not known, without it."""
    seen = ahead(*twice(PeakPhase.CALLBACKS, 310))
    (one,) = told(replace(seen, steps_left=None))
    assert one.sentence == (
        "the callbacks at the end of the last epochs needed at least 310 MiB beyond what"
        " lies between steps, and 250 MiB of 900 MiB are left now: the next time, at the"
        " end of this epoch, will probably not fit"
    )
    assert "steps" not in one.figures


def test_a_longer_step_of_the_past_epochs_is_told_too() -> None:
    """When it comes nobody knows; slices are sized to fill the limit, and left out."""
    seen = ahead(*twice(PeakPhase.STEPS, 310))
    (one,) = told(seen)
    assert one.sentence.endswith(
        "are left now: the next of its kind will probably not fit"
    )
    assert told(replace(seen, sliced=True)) == []


def test_of_several_the_largest_is_told() -> None:
    """One sentence for all."""
    found = next_peak(ahead(*VALIDATIONS, *twice(PeakPhase.CALLBACKS, 330)))
    assert found is not None
    assert (found.phase, found.need_bytes) == (PeakPhase.CALLBACKS, 330 * MIB)


def test_once_is_not_enough() -> None:
    """The first time traces and compiles; a first validation is no measure of the next."""
    assert told(ahead(VALIDATIONS[0])) == []


def test_of_two_times_the_lesser_counts() -> None:
    """Which operations run at once differs."""
    less = peak(PeakPhase.VALIDATION, between=200, high=440, before=410)
    assert ahead(VALIDATIONS[0], less).needs.bytes_of == {
        PeakPhase.VALIDATION: 240 * MIB
    }
    assert told(ahead(VALIDATIONS[0], less)) == []


def test_a_peak_that_did_not_rise_is_a_bound() -> None:
    """It needed no more than that; of one that was never seen nothing is known."""
    below = peak(PeakPhase.VALIDATION, between=300, high=410, before=410)
    assert needed(None, below) is None
    assert needed(310 * MIB, below) == 110 * MIB
    assert needed(10 * MIB, below) == 10 * MIB
    assert PhaseNeeds().and_then(below) == PhaseNeeds()


def test_a_peak_close_to_the_limit_is_a_bound_too() -> None:
    """Operations wait for memory there, and take what there is."""
    full = peak(PeakPhase.VALIDATION, between=700, high=890, before=800)
    assert needed(None, full) is None
    assert needed(310 * MIB, full) == 190 * MIB


def reading(step: int, in_use: int) -> AllocatorReading:
    """One of so many MiB."""
    return AllocatorReading(ns=step, step=step, in_use=in_use * MIB, peak=0)


def test_in_use_now_is_the_least_of_the_newest_of_this_epoch() -> None:
    """Until there are three of them it is what the epoch began with."""
    earlier = [reading(step, 10) for step in (39, 40, 41)]
    few = [*earlier, reading(42, 700), reading(43, 710)]
    assert in_use_now(EPOCH, few) == 650 * MIB
    assert in_use_now(EPOCH, [*few, reading(44, 720)]) == 700 * MIB
    assert in_use_now(EPOCH, [*few, reading(44, 5), *few[-2:], few[-1]]) == 700 * MIB


@given(st.lists(st.tuples(sizes, sizes, sizes), max_size=4), sizes)
def test_what_is_told_never_needed_less_than_is_left(
    seen: list[tuple[int, int, int]], in_use: int
) -> None:
    """Whatever was seen: its need was measured, and is more than there is."""
    peaks = [
        PhasePeak(
            phase=PeakPhase.VALIDATION,
            between_bytes=between,
            before_bytes=before,
            peak_bytes=high,
            limit_bytes=LIMIT,
        )
        for between, before, high in seen
    ]
    state = replace(ahead(*peaks), in_use_bytes=in_use)
    found = next_peak(state)
    if found is None:
        return
    last = [max(one.peak_bytes - one.between_bytes, 0) for one in peaks]
    assert in_use + found.need_bytes > LIMIT or in_use >= LIMIT
    assert found.need_bytes <= last[-1]
    assert any(one >= found.need_bytes for one in last[:-1])
