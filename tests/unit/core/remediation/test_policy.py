"""Remedies: each only if the one before did not help, all within their budgets."""

from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.result import Diagnosis, Reason, RemedyKind
from supervisor.core.gpu.gpu_readings import GpuProcess
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.oom_analysis import OomFindings, autopsy_of
from supervisor.core.remediation.escalation import Allow, RemedyPermissions
from supervisor.core.remediation.history import AttemptHistory, History, Unpromised
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import (
    MIXED,
    NOTHING,
    TO_BE_FOUND,
    Overrides,
)
from supervisor.core.remediation.policy import Decision, Policy
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.evidence import refusal
from tests.support.stories import GIB, TENANT, Story, gpu

POLICY = Policy(
    run_id="r",
    without_progress=3,
    back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
)
BATCH = 512
PLAN = MicrobatchPlan(
    slice_size=None, slices=1, calibrate=True, ceiling=BATCH, because="x"
)


def decide(
    cause: Cause,
    history: History,
    *,
    steps_done: int | None = 5,
    refused: str | None = None,
    limited: bool = False,
) -> Decision:
    """What the policy says after an attempt that ended for ``cause``."""
    diagnosis = Diagnosis(cause=cause, because=(Reason("x", "x"),))
    evidence = Evidence(
        exit=None,
        steps_done=steps_done,
        refused=None if refused is None else refusal(refused),
        limited=limited,
    )
    return POLICY.decide(diagnosis, evidence, history, NOTHING)


def failures(
    cause: Cause,
    times: int,
    *,
    batch: int | None = BATCH,
    snapshot: int | None = 0,
    remedy_steps: tuple[str | None, ...] = (),
) -> History:
    """A run that failed so many times without progress; ``remedy_steps``: what was tried."""
    return History(
        attempts=tuple(
            AttemptHistory(
                number=number,
                cause=cause,
                snapshot_step=snapshot,
                batch=batch,
                remedy_step=remedy_step,
            )
            for number, remedy_step in zip_longest(range(1, times + 1), remedy_steps)
        )
    )


@pytest.mark.parametrize("cause", [Cause.USER_ERROR, Cause.VERSION_MISMATCH])
@pytest.mark.parametrize("steps", [0, None])
def test_before_the_first_step_a_restart_cannot_help(
    cause: Cause, steps: int | None
) -> None:
    """The script's own error at its beginning stops the run at once."""
    verdict = decide(cause, failures(cause, 1), steps_done=steps)
    assert verdict.remedy.kind is RemedyKind.STOP


def test_after_progress_the_scripts_own_error_gets_one_more_chance() -> None:
    """A file may have been missing for a moment; the same again is the script's."""
    assert (
        decide(Cause.USER_ERROR, failures(Cause.USER_ERROR, 1)).remedy.kind
        is RemedyKind.RESTART
    )
    verdict = decide(Cause.USER_ERROR, failures(Cause.USER_ERROR, 2))
    assert verdict.remedy.kind is RemedyKind.STOP
    assert verdict.remedy.because == (
        "a restart brought no progress: the script raised an error of its own"
    )


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, True),
        ({"unpromised": None}, False),  # nothing is missing
        ({"restored_step": None}, False),  # it had never gone on
        ({"last_step": 41}, False),  # it went on well
    ],
)
def test_a_script_may_miss_what_a_restart_does_not_give_back(
    known: dict[str, Any], *, told: bool
) -> None:
    """It had run past there before: what is told may be why, and how to get on."""
    unpromised = Unpromised(fit=0, because="the callback Rival keeps an SGDClassifier")
    failed = failures(Cause.USER_ERROR, 2)
    resumed = {"restored_step": 40, "last_step": 40, "unpromised": unpromised, **known}
    last = replace(failed.attempts[-1], **resumed)
    history = replace(failed, attempts=(*failed.attempts[:-1], last))
    because = decide(Cause.USER_ERROR, history).remedy.because
    assert ("SGDClassifier); run with --fresh it begins anew" in because) is told


@pytest.mark.parametrize(
    ("saved", "end"),
    [
        (9, "nothing was wrong with training: go on from the newest snapshot"),
        (0, "nothing is saved yet: the script runs from its top"),
    ],
)
def test_a_restart_says_from_where(saved: int, end: str) -> None:
    """Nobody is told of a snapshot that is not there."""
    last = AttemptHistory(number=1, cause=Cause.PREEMPTED, snapshot_step=saved)
    verdict = decide(Cause.PREEMPTED, History(attempts=(last,)))
    assert verdict.remedy.because.endswith(end)


def test_an_error_before_the_first_step_of_a_run_that_had_trained() -> None:
    """What worked a while ago gets one more chance, unless a person started anew."""
    trained = AttemptHistory(
        number=1, cause=Cause.PREEMPTED, restored_step=0, last_step=9, snapshot_step=9
    )
    failed = AttemptHistory(number=2, cause=Cause.USER_ERROR, snapshot_step=9)
    history = History(attempts=(trained, failed))
    verdict = decide(Cause.USER_ERROR, history, steps_done=None)
    assert verdict.remedy.kind is RemedyKind.RESTART
    again = history.begun(3).updated(cause=Cause.USER_ERROR, snapshot_step=9)
    verdict = decide(Cause.USER_ERROR, again, steps_done=None)
    assert verdict.remedy.kind is RemedyKind.STOP
    assert "before its first step" not in verdict.remedy.because
    anew = replace(history, budget_since=2)
    verdict = decide(Cause.USER_ERROR, anew, steps_done=None)
    assert verdict.remedy.kind is RemedyKind.STOP


def test_a_refusal_is_final_and_keeps_its_sentence() -> None:
    """What the training side refuses is told in its own words."""
    verdict = decide(
        Cause.USER_ERROR, failures(Cause.USER_ERROR, 1), refused="no Keras 9"
    )
    assert (verdict.remedy.kind, verdict.remedy.because) == (
        RemedyKind.STOP,
        "no Keras 9",
    )


def test_a_gpu_that_is_gone_may_come_back() -> None:
    """A driver may take a while: the run is begun again, and in the end it is the refusal
    that is told."""
    gone = refusal("no GPU", RefusalReason.DEVICE_GONE)
    evidence = Evidence(exit=None, refused=gone, steps_done=None)
    diagnosis = Diagnosis(cause=Cause.UNKNOWN, because=(Reason("x", "x"),))
    kinds = [
        POLICY.decide(
            diagnosis, evidence, failures(Cause.UNKNOWN, times, snapshot=9), NOTHING
        ).remedy
        for times in (1, 2, 3, 4)
    ]
    assert [one.kind for one in kinds[:2]] == [RemedyKind.RESTART] * 2
    assert kinds[-1].kind is RemedyKind.STOP
    assert kinds[-1].because.endswith("brought no progress: no GPU")


@pytest.mark.parametrize(
    ("allowed", "precision"), [(False, None), (True, None), (True, MIXED)]
)
def test_a_batch_that_cannot_be_sliced(*, allowed: bool, precision: str | None) -> None:
    """The next remedy that needs no slices, in whole batches; without one, the refusal."""
    terms = RemedyPermissions(
        allowed=frozenset({Allow.MIXED_PRECISION} if allowed else ())
    )
    refused = refusal("it is a graph", RefusalReason.MEMORY)
    verdict = replace(POLICY, terms=terms).decide(
        Diagnosis(cause=Cause.DEVICE_OOM, because=(Reason("x", "x"),)),
        Evidence(exit=None, refused=refused, subject=OomSubject.STEP),
        failures(Cause.DEVICE_OOM, 2, remedy_steps=("planned", None)),
        Overrides(plan=PLAN, precision=precision),
    )
    if allowed and precision is None:
        assert verdict.remedy.kind is RemedyKind.ALTER
        assert verdict.overrides == Overrides(precision=MIXED)
    else:
        assert verdict.remedy.kind is RemedyKind.STOP
        assert verdict.remedy.because == "it is a graph"


def whole_batches(*, past: bool = False, **fields: Any) -> list[Decision]:
    """What is decided, time after time, on a backend that has no slices; ``past``: an
    attempt before had trained."""
    story = Story(Cause.DEVICE_OOM, batch=BATCH, gpus=fields.pop("gpus", ()))
    if past:
        story.fail(step=10, steps_done=10, sliceable=False)
    known: dict[str, Any] = {
        "step": 1,
        "steps_done": 1,
        "sliceable": False,
        **fields,
    }
    return [story.fail(**known) for _ in range(4)]


def test_a_backend_without_slices_stops_at_once() -> None:
    """Before a step was done nothing else can help, and no second attempt finds that out.
    JAX counts a step as done that it has only been given."""
    first = whole_batches()[0]
    assert first.remedy.kind is RemedyKind.STOP
    assert "gradient_accumulation_steps" in first.remedy.because
    known = Story(Cause.DEVICE_OOM, batch=BATCH).fail(steps_done=0, sliceable=True)
    assert known.remedy.kind is RemedyKind.MICROBATCH


def test_a_backend_without_slices_that_had_trained() -> None:
    """A fresh process may go on where one had room before; not for ever."""
    kinds = [one.remedy.kind for one in whole_batches(past=True)]
    assert kinds[0] is RemedyKind.RESTART
    assert kinds[-1] is RemedyKind.STOP
    later = whole_batches(steps_done=7)
    assert later[0].remedy_step == "fresh_whole"


def test_a_backend_without_slices_beside_others() -> None:
    """They are waited for, each time."""
    told = whole_batches(gpus=(gpu(0, TENANT),))
    kinds = [one.remedy.kind for one in told]
    assert kinds == [RemedyKind.WAIT] * 3 + [RemedyKind.STOP]
    assert "beside what others hold" in told[-1].remedy.because


def test_a_backend_without_slices_beside_others_that_nobody_lists() -> None:
    """In a container, say: only PyTorch's own text names who fills the GPU."""
    memory = MemoryFigures(
        limit_bytes=80 * GIB,
        pool_bytes=GIB,
        in_use_bytes=GIB,
        free_bytes=0,
        requested_bytes=2 * GIB,
    )
    other = GpuProcess(pid=4223, bytes=78 * GIB)
    found = autopsy_of(Cause.DEVICE_OOM, memory, OomFindings(tenants=(other,)))
    told = whole_batches(memory=memory, autopsy=found)
    kinds = [one.remedy.kind for one in told]
    assert kinds == [RemedyKind.RESTART] * 3 + [RemedyKind.STOP]
    assert told[1].remedy.wait_seconds > 0.0


def test_a_precision_of_the_spec_is_not_lowered() -> None:
    """One half precision in the place of another frees nothing."""
    terms = RemedyPermissions(
        allowed=frozenset({Allow.MIXED_PRECISION}), precision="mixed_float16"
    )
    verdict = replace(POLICY, terms=terms).decide(
        Diagnosis(cause=Cause.DEVICE_OOM, because=(Reason("x", "x"),)),
        Evidence(
            exit=None,
            refused=refusal("it is a graph", RefusalReason.MEMORY),
            subject=OomSubject.STEP,
        ),
        failures(Cause.DEVICE_OOM, 2, remedy_steps=("planned", None)),
        Overrides(plan=PLAN),
    )
    assert verdict.remedy.kind is RemedyKind.STOP


def test_a_remedy_is_told_with_what_the_spec_asked_for() -> None:
    """A batch in slices of the spec was not whole before."""
    story = Story(Cause.DEVICE_OOM)
    terms = RemedyPermissions(slice_size=16)
    story.policy = replace(story.policy, terms=terms)
    verdict = story.fail(subject=OomSubject.STEP)
    slices: Any = verdict.remedy.changes["slices"]
    assert slices[0] == "of 16 samples"


def test_the_first_restart_is_immediate_and_the_next_ones_wait() -> None:
    """Back-off begins with the second failure in a row."""
    waits = [
        decide(Cause.PREEMPTED, failures(Cause.PREEMPTED, n)).remedy.wait_seconds
        for n in (1, 2, 3)
    ]
    assert waits[0] == 0
    assert 0 < waits[1] < waits[2]


def test_kills_from_outside_never_end_a_run_and_wait_longer_each_time() -> None:
    """Nothing was wrong with training, and who kills may kill the next at once."""
    kill = AttemptHistory(
        number=1, cause=Cause.PREEMPTED, outside=True, snapshot_step=0
    )
    killed = [
        History(
            attempts=tuple(
                replace(kill, number=n, last_step=n) for n in range(1, count)
            )
        )
        for count in (5, 50)
    ]
    few, many = (decide(Cause.PREEMPTED, history).remedy for history in killed)
    assert (few.kind, many.kind) == (RemedyKind.RESTART, RemedyKind.RESTART)
    assert 0 < few.wait_seconds < many.wait_seconds


def test_three_fruitless_restarts_are_enough() -> None:
    """The fourth failure without progress stops the run and says why."""
    verdict = decide(Cause.UNKNOWN, failures(Cause.UNKNOWN, 4))
    assert verdict.remedy.kind is RemedyKind.STOP
    assert verdict.remedy.because == (
        "3 restarts brought no progress: it ended for a reason nobody could see"
    )


@pytest.mark.parametrize(
    ("snapshots", "told"),
    [
        ((32, 33, 33), " (newer snapshots, but it ended after step 39 again)"),
        ((33, 33, 33), ""),
    ],
)
def test_newer_snapshots_that_were_no_progress_are_told(
    snapshots: tuple[int, ...], told: str
) -> None:
    """It ended where it had ended before; a log that shows newer snapshots would otherwise
    contradict the sentence of the end."""
    hung = tuple(
        AttemptHistory(
            number=number, cause=Cause.STALLED, snapshot_step=snapshot, last_step=39
        )
        for number, snapshot in enumerate(snapshots, start=1)
    )
    policy = replace(POLICY, without_progress=2)
    verdict = policy.decide(
        Diagnosis(cause=Cause.STALLED, because=()),
        Evidence(exit=None),
        History(attempts=hung),
        NOTHING,
    )
    assert verdict.remedy.kind is RemedyKind.STOP
    assert verdict.remedy.because == (
        f"2 restarts brought no progress{told}: training was alive but made no progress"
    )


def test_causes_that_take_turns_stop_too() -> None:
    """The overall budget is three times the one of a cause."""
    causes = [Cause.PREEMPTED, Cause.NCCL] * 5
    history = History(
        attempts=tuple(
            AttemptHistory(number=n, cause=cause, snapshot_step=0)
            for n, cause in enumerate(causes, start=1)
        )
    )
    verdict = decide(Cause.NCCL, history)
    assert verdict.remedy.kind is RemedyKind.STOP
    assert "several causes" in verdict.remedy.because


def test_fragmentation_first_gets_a_fresh_process_with_the_same_batch() -> None:
    """Then comes CUDA's own allocator, and only then the slices shrink."""
    cause = Cause.DEVICE_OOM_FRAGMENTATION
    tried: tuple[str, ...] = ()
    for kind in (RemedyKind.RESTART, RemedyKind.SETTINGS, RemedyKind.MICROBATCH):
        verdict = decide(cause, failures(cause, len(tried) + 1, remedy_steps=tried))
        assert verdict.remedy.kind is kind
        assert verdict.remedy_step is not None
        tried += (verdict.remedy_step,)


def test_fragmentation_of_a_fresh_process_is_answered_with_slices() -> None:
    """An attempt that failed in its first step was a fresh process already."""
    cause = Cause.DEVICE_OOM_FRAGMENTATION
    verdict = decide(cause, failures(cause, 1), steps_done=0, limited=True)
    assert verdict.remedy.kind is RemedyKind.MICROBATCH


def test_out_of_memory_with_one_sample_left_stops() -> None:
    """When one sample at a time does not fit, the run says so."""
    history = failures(Cause.DEVICE_OOM, 1, batch=1)
    verdict = decide(Cause.DEVICE_OOM, history)
    assert verdict.remedy.kind is RemedyKind.STOP
    assert "one sample" in verdict.remedy.because


def test_out_of_memory_outside_of_training_steps_stops() -> None:
    """Slices of a batch cannot help where no batch was ever seen."""
    verdict = decide(Cause.DEVICE_OOM, failures(Cause.DEVICE_OOM, 1, batch=None))
    assert verdict.remedy.kind is RemedyKind.STOP
    assert "outside of training" in verdict.remedy.because


def test_the_change_of_slices_is_stated() -> None:
    """The incident says from how many slices to how many; not before it is known."""
    history = failures(Cause.DEVICE_OOM, 1)
    first = decide(Cause.DEVICE_OOM, history)
    assert first.overrides.plan is not None
    assert first.overrides.plan.calibrate
    assert first.remedy.changes == {"slices": [1, TO_BE_FOUND]}


@given(st.lists(st.integers(1, BATCH), max_size=5, unique=True), st.integers(1, BATCH))
def test_a_remedy_never_asks_for_a_slice_that_failed(
    failed: list[int], batch: int
) -> None:
    """The next slice, and the calibration's ceiling, stay below all that failed."""
    sizes = sorted((size for size in failed if size <= batch), reverse=True)
    history = History(
        attempts=tuple(
            AttemptHistory(
                number=n,
                cause=Cause.DEVICE_OOM,
                snapshot_step=n,
                batch=batch,
                slice_size=size,
            )
            for n, size in enumerate([batch, *sizes], start=1)
        )
    )
    verdict = decide(Cause.DEVICE_OOM, history)
    if verdict.remedy.kind is RemedyKind.MICROBATCH:
        assert verdict.overrides.plan is not None
        smallest = min([batch, *sizes])
        assert (
            verdict.overrides.plan.slice_size is None
            or verdict.overrides.plan.slice_size < smallest
        )
        assert (
            verdict.overrides.plan.ceiling is None
            or verdict.overrides.plan.ceiling <= smallest
        )


def test_zero_restarts_means_none() -> None:
    """A spec may forbid restarts."""
    never = replace(POLICY, without_progress=0)
    diagnosis = Diagnosis(cause=Cause.PREEMPTED, because=())
    verdict = never.decide(
        diagnosis, Evidence(exit=None), failures(Cause.PREEMPTED, 1), NOTHING
    )
    assert verdict.remedy.kind is RemedyKind.STOP
