"""The advisor tells when advice has changed, and only then."""

import json
from dataclasses import replace
from typing import Any

import pytest

from supervisor.core.advisories.advisory import AdvisoryKind
from supervisor.core.advisories.gpu_rules import LOOKS
from supervisor.core.advisories.next_peak import PhaseNeeds
from supervisor.core.gpu.gpu_readings import Gpu, GpuProcess
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.runtime.attempts.advisor import Advisor
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.page import Page, Phase
from supervisor.wire.readings import AllocatorReading, pack
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak
from supervisor.wire.records.step_evidence import StepEvidence

SLOW = StepEvidence(
    fit=0,
    steps=100,
    seconds=50.0,
    data_steps=100,
    data_seconds=50.0,
    wait_seconds=40.0,
    wide_inputs=("4x8",),
)
SOUND = replace(SLOW, wait_seconds=0.0)


def view(evidence: StepEvidence, **changes: object) -> AttemptView:
    """What is known of an attempt that wrote it, and these in the place of its own."""
    fields = json.loads(json.dumps({**evidence.to_json(), **changes}))
    return fold(AttemptView(), [Record(RecordKind.EVIDENCE, 1, fields)])


def test_it_tells_what_is_new() -> None:
    """At the first evidence, where figures are others, and where it holds no more."""
    advisor = Advisor()
    assert advisor.look(AttemptView()) == ()
    (first,) = advisor.look(view(SLOW))
    assert [one.kind for one in first.advisories] == [AdvisoryKind.INPUT_BOUND]
    assert advisor.look(view(SLOW)) == ()
    (over,) = advisor.look(view(SOUND))
    assert [one.over for one in over.advisories] == [True]
    assert advisor.look(view(replace(SOUND, steps=101))) == ()


GPU = Gpu(
    uuid="GPU-a",
    utilization=0.5,
    pcie_lanes=(8, 16),
    processes=(GpuProcess(pid=7, bytes=1),),
)
TRAINS = Page(
    phase=Phase.TRAINING,
    effective_batch=32,
    slices=1,
    memory_peak_bytes=10,
    memory_limit_bytes=100,
)


def seen(advisor: Advisor, page: Page | None, *, times: int = LOOKS) -> None:
    """So many samples of the driver."""
    for _ in range(times):
        advisor.see_gpus((replace(GPU),), page, named=("GPU-a",), ours={7})


def test_gpus_are_looked_at_while_steps_are_made() -> None:
    """Each sample once; not while it compiles, nor where nothing is known of them."""
    advisor = Advisor()
    seen(advisor, replace(TRAINS, phase=Phase.COMPILING), times=99)
    seen(advisor, None, times=99)
    one = (GPU,)
    for _ in range(99):
        advisor.see_gpus((), TRAINS, named=(), ours={7})
        advisor.see_gpus(one, TRAINS, named=("GPU-a",), ours={7})
    assert advisor.look(AttemptView(), TRAINS) == ()
    seen(advisor, TRAINS)
    (told,) = advisor.look(AttemptView(), TRAINS)
    assert [one.kind for one in told.advisories] == [AdvisoryKind.PCIE_WIDTH]
    seen(advisor, TRAINS)
    assert advisor.look(AttemptView(), TRAINS) == ()


def test_a_batch_that_is_worked_through_in_slices_is_not_small() -> None:
    """Its peak says nothing of the batch; nor does a page without figures."""
    steps = view(replace(SOUND, on_cpu=False))
    for page in (
        None,
        replace(TRAINS, slices=2),
        replace(TRAINS, memory_limit_bytes=None),
        TRAINS,
    ):
        advisor = Advisor()
        seen(advisor, TRAINS)
        (told,) = advisor.look(steps, page)
        kinds = {one.kind for one in told.advisories}
        assert (AdvisoryKind.SMALL_BATCH in kinds) == (page is TRAINS)


def test_the_file_may_hold_anything() -> None:
    """What training does not write is no evidence, and stops nobody."""
    assert view(SLOW).evidence == SLOW
    strange: list[dict[str, object]] = [
        {"seconds": float("inf")},
        {"wait_seconds": float("nan")},
        {"steps": -1},
        {"steps": 10**5000},
        {"steps": "many"},
        {"data_seconds": None},
    ]
    for changes in strange:
        fields = {**SLOW.to_json(), **changes}
        found = fold(AttemptView(), [Record(RecordKind.EVIDENCE, 1, fields)])
        assert found.evidence is None, changes
    odd = view(SLOW, wide_inputs=[1, None, "x" * 500] * 50).evidence
    assert odd is not None
    assert odd.wide_inputs[:2] == ("1", "None")
    assert len(odd.wide_inputs) == 20
    assert max(map(len, odd.wide_inputs)) == 100


def near(slice_size: int, **changes: object) -> AttemptView:
    """What is known of an attempt whose slices were of 8 samples, and are of ``slice_size``."""
    told = NearLimit(
        batch=128,
        first_size=8,
        size=slice_size,
        peak_bytes=89,
        limit_bytes=90,
        unsliced_bytes=None,
    )
    fields = {"size": slice_size, "near_limit": {**told.to_json(), **changes}}
    return fold(AttemptView(), [Record(RecordKind.MICROBATCH, 1, fields)])


def test_each_change_of_slices_is_told() -> None:
    """The figures of the newest hold; a record that is none of ours says nothing, and a
    new call of fit begins anew."""
    advisor = Advisor()
    (first,) = advisor.look(near(7))
    assert first.advisories[0].figures["slices"] == 19
    (second,) = advisor.look(near(6))
    assert second.advisories[0].figures["slices"] == 22
    assert advisor.look(near(6)) == ()
    for wrong in (
        {"size": 0},
        {"batch": 5},
        {"peak_bytes": "much"},
        {"limit_bytes": -1},
    ):
        assert near(6, **wrong).near_limit is None
    began = fold(near(6), [Record(RecordKind.FIT_BEGAN, 2, {"fit": 1})])
    assert began.near_limit is None


def test_gpus_that_the_run_may_use() -> None:
    """Counted whether it uses them or not, without those that are lost, or others'."""
    gone, others = replace(GPU, uuid="GPU-b", lost=True), replace(GPU, uuid="GPU-c")
    missed = view(replace(SOUND, finds_no_gpu=True))
    for usable, count in (({"GPU-a", "GPU-b"}, 1), ({"GPU-b"}, 0)):
        advisor = Advisor()
        advisor.see_gpus((GPU, gone, others), TRAINS, named=usable, ours={1})
        told = advisor.look(missed)
        assert [one.kind for each in told for one in each.advisories] == (
            [AdvisoryKind.UNUSED_GPU] * count
        )


def validated(
    *needs: int, epoch: dict[str, object] | None = None, **changes: object
) -> list[Record]:
    """Records of validations that needed so much, and of the epoch that began then."""
    seen = [
        PhasePeak(
            phase=PeakPhase.VALIDATION,
            between_bytes=10,
            before_bytes=10 + need - 1,
            peak_bytes=10 + need,
            limit_bytes=100,
        ).to_json()
        for need in needs
    ]
    began = EpochMemory(step=41, in_use_bytes=60, validation_epochs=0).to_json()
    records = [Record(RecordKind.PHASE_PEAK, 1, {**one, **changes}) for one in seen]
    return [*records, Record(RecordKind.EPOCH_MEMORY, 2, {**began, **(epoch or {})})]


IN_EPOCH = replace(TRAINS, steps_per_epoch=40, step_in_epoch=1)


def test_a_validation_that_will_not_fit_is_told_and_taken_back() -> None:
    """By what is left on the page; it holds no more once the call of fit is over."""
    advisor = Advisor()
    seen = fold(AttemptView(), validated(50, 50))
    assert advisor.look(seen, None) == ()
    assert advisor.look(seen, replace(IN_EPOCH, memory_limit_bytes=None)) == ()
    (told,) = advisor.look(seen, IN_EPOCH)
    (one,) = told.advisories
    assert (one.kind, one.over) == (AdvisoryKind.NEXT_PEAK, False)
    assert one.figures["steps"] == 39
    assert advisor.look(seen, IN_EPOCH) == ()
    over = fold(seen, [Record(RecordKind.FIT_ENDED, 3, {})])
    (gone,) = advisor.look(over, IN_EPOCH)
    assert [one.over for one in gone.advisories] == [True]


@pytest.mark.parametrize(
    "kind",
    [
        RecordKind.FIT_BEGAN,
        RecordKind.FIT_ENDED,
        RecordKind.FIT_FAILED,
        RecordKind.GOES_ON,
    ],
)
def test_phases_are_of_one_call_of_fit(kind: str) -> None:
    """Another one may have another model, and none may be left."""
    seen = fold(AttemptView(), validated(50, 50))
    assert fold(seen, [Record(kind, 3, {})]).phase_needs == PhaseNeeds()


def test_readings_of_the_epoch_say_what_is_in_use() -> None:
    """Three of them below what it began with: it fits again."""
    readings = [
        AllocatorReading(ns=ns, step=41 + ns, in_use=20, peak=90) for ns in (1, 2, 3)
    ]
    page = replace(IN_EPOCH, memory_recent=pack(readings), step_in_epoch=None)
    seen = fold(AttemptView(), validated(50, 50))
    assert Advisor().look(seen, page) == ()
    assert Advisor().look(seen, replace(page, memory_recent=pack(readings[:2]))) != ()


def test_records_of_phases_may_hold_anything() -> None:
    """What training does not write changes nothing, and stops nobody."""
    peaks: list[dict[str, Any]] = [
        {"phase": "lunch"},
        {"phase": 3},
        {"peak_bytes": -1},
        {"limit_bytes": None},
        {"between_bytes": 10**17},
    ]
    for wrong in peaks:
        found = fold(AttemptView(), validated(50, 50, **wrong))
        assert found.phase_needs.seen == {}, wrong
    strange: list[dict[str, object]] = [
        {"step": -1},
        {"in_use_bytes": "much"},
        {"validation_epochs": 1.5},
    ]
    for odd in strange:
        found = fold(AttemptView(), validated(50, 50, epoch=odd))
        assert found.phase_needs.epoch is None, odd
