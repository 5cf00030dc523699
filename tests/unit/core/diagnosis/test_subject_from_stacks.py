"""What memory was asked for when it ran out, and what can help with that."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE_FOR
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.examination import examined
from supervisor.core.diagnosis.explain_memory import SUBJECTS, autopsy_paragraph
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.diagnosis.stack_traces import (
    named_subject,
    subject_in_stack,
)
from supervisor.core.memory.figures import MemoryFigures, OomVerdict
from supervisor.core.memory.oom_analysis import Holder, OomAnalysis, autopsy_of
from supervisor.core.remediation.escalation import Allow
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.subject_remedies import STOPS
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.lives import exit_record, oom_report
from tests.support.stories import TENANT, Story, gpu

ELSEWHERE = [one for one in OomSubject if one is not OomSubject.STEP]

CONSTANT = ("tensorflow/python/framework/constant_op.py", "convert_to_eager_tensor")


def stacks(*frames: tuple[str, str]) -> str:
    """What faulthandler writes: another thread, and the one that crashed."""
    lines = [f'  File "/p/{path}", line 3 in {name}\n' for path, name in frames]
    return (
        "Fatal Python error: Segmentation fault\n\n"
        "Thread 0x00007f (most recent call first):\n"
        '  File "/p/keras/src/optimizers/adam.py", line 1 in build\n\n'
        "Current thread 0x00007e (most recent call first):\n"
        f"{''.join(lines)}\nExtension modules: numpy (total: 1)\n"
    )


@pytest.mark.parametrize(
    ("path", "name", "subject"),
    [
        ("keras/src/optimizers/adam.py", "build", "optimizer"),
        ("keras/src/backend/common/variables.py", "__init__", "weights"),
        ("tensorflow/python/data/ops/from_tensor_slices_op.py", "__init__", "data"),
        ("tensorflow/python/data/ops/from_tensors_op.py", "__init__", "data"),
        ("keras/src/trainers/data_adapters/array_data_adapter.py", "x", "data"),
        ("tensorflow/python/data/ops/iterator_ops.py", "_create_iterator", "data"),
        ("tensorflow/python/data/ops/iterator_ops.py", "__next__", None),
        ("keras/src/optimizers/adam.py", "update_step", None),
    ],
)
def test_the_stack_of_a_crash_tells(path: str, name: str, subject: str | None) -> None:
    """By the functions of Keras and TensorFlow in it, within a fit or not."""
    told = stacks(CONSTANT, (path, name), ("train.py", "<module>"))
    assert subject_in_stack(told, in_fit=True) == subject
    assert subject_in_stack(told, in_fit=False) == subject or subject is None


def test_an_array_made_a_tensor_is_data_outside_of_fit() -> None:
    """Within a fit it may be anything: a callback's, a loss'."""
    told = stacks(CONSTANT, ("train.py", "<module>"))
    assert subject_in_stack(told, in_fit=False) is OomSubject.DATA
    assert subject_in_stack(told, in_fit=True) is None


def test_what_a_generator_makes_is_no_data_set() -> None:
    """It is a batch, be it that the frames of data sets stand around it."""
    generator = ("tensorflow/python/ops/script_ops.py", "__call__")
    adapter = ("keras/src/trainers/data_adapters/generator_data_adapter.py", "get")
    told = stacks(CONSTANT, generator, adapter)
    assert subject_in_stack(told, in_fit=True) is None
    assert subject_in_stack(told, in_fit=False) is None


def test_a_validation_within_a_fit() -> None:
    """Outside of a fit it is the script's own evaluation, beside a loop of its own, too."""
    told = stacks(("keras/src/backend/tensorflow/trainer.py", "evaluate"))
    assert subject_in_stack(told, in_fit=True) is OomSubject.EVALUATION
    assert subject_in_stack(told, in_fit=False) is OomSubject.OUTSIDE


def test_no_stack_tells_nothing() -> None:
    """None was written, or it holds no Python frames of the thread that crashed."""
    assert subject_in_stack("", in_fit=False) is None
    assert subject_in_stack(stacks(), in_fit=False) is None


def test_a_subject_of_a_newer_version_is_none() -> None:
    """The wire may carry what this version does not know."""
    assert named_subject("weights") is OomSubject.WEIGHTS
    assert named_subject("tokens") is None
    assert named_subject(None) is None


# --- remedies ---


@pytest.mark.parametrize("subject", sorted({*ELSEWHERE} - {OomSubject.BATCH}))
@pytest.mark.parametrize(
    "cause", [Cause.DEVICE_OOM, Cause.DEVICE_OOM_FRAGMENTATION, Cause.CUDNN_ALLOC]
)
def test_slices_are_never_the_remedy_for_what_the_batch_has_no_part_in(
    subject: OomSubject, cause: Cause
) -> None:
    """Whatever else is tried, and at the end the sentence says what would help."""
    story = Story(cause, allowed=frozenset({Allow.MIXED_PRECISION}))
    verdicts = [
        story.fail(step=None, steps_done=0, subject=subject).remedy for _ in range(9)
    ]
    assert RemedyKind.MICROBATCH not in {one.kind for one in verdicts}
    stops = [one.because for one in verdicts if one.kind is RemedyKind.STOP]
    assert STOPS[subject] in stops[0]


def test_a_step_is_sliced_as_ever() -> None:
    """Known to be a step, or not known."""
    for subject in (OomSubject.STEP, None):
        verdict = Story(Cause.DEVICE_OOM).fail(subject=subject)
        assert verdict.remedy.kind is RemedyKind.MICROBATCH


@pytest.mark.parametrize("subject", ELSEWHERE)
def test_mixed_precision_makes_nothing_smaller_that_stays(subject: OomSubject) -> None:
    """It is offered for what is computed, and only then."""
    story = Story(Cause.DEVICE_OOM, allowed=frozenset({Allow.MIXED_PRECISION}))
    verdict = story.fail(step=None, steps_done=0, subject=subject)
    computed = subject in {
        OomSubject.EVALUATION,
        OomSubject.OUTSIDE,
        OomSubject.OWN_STEP,
    }
    assert (verdict.remedy.kind is RemedyKind.ALTER) is computed


def test_a_process_that_trained_before_is_replaced_once() -> None:
    """What earlier calls of fit left behind is gone then; if it comes back, it stops."""
    story = Story(Cause.DEVICE_OOM)
    assert story.fail(subject=OomSubject.WEIGHTS).remedy_step == "leftovers"
    verdict = story.fail(subject=OomSubject.WEIGHTS, step=11)
    assert verdict.remedy.kind is RemedyKind.STOP
    fragmented = Story(Cause.DEVICE_OOM_FRAGMENTATION)
    assert fragmented.fail(subject=OomSubject.WEIGHTS).remedy_step == "leftovers"
    assert fragmented.fail(subject=OomSubject.WEIGHTS).remedy_step == "async_allocator"


def test_a_loop_of_ones_own_is_not_said_to_be_a_fit() -> None:
    """A fresh process is tried once where it had made steps, for what these left; then
    it is said what helps, and in whose hands that is."""
    for cause, more in ((Cause.DEVICE_OOM, 0), (Cause.DEVICE_OOM_FRAGMENTATION, 1)):
        story = Story(cause, batch=None)
        first = story.fail(subject=OomSubject.OWN_STEP)
        assert first.remedy_step == "leftovers"
        assert "fit" not in first.remedy.because.split()
        for _ in range(more):
            story.fail(subject=OomSubject.OWN_STEP, steps_done=0)
        last = story.fail(subject=OomSubject.OWN_STEP, steps_done=0)
        assert last.remedy.kind is RemedyKind.STOP
        assert last.remedy.because == STOPS[OomSubject.OWN_STEP]
        assert "smaller batch" in last.remedy.because


def test_what_is_larger_than_the_limit_is_not_tried_again() -> None:
    """Nor a validation, which comes back as it was."""
    oversize = _autopsy(OomVerdict.OVERSIZE, OomSubject.DATA)
    verdict = Story(Cause.DEVICE_OOM).fail(subject=OomSubject.DATA, autopsy=oversize)
    assert verdict.remedy.kind is RemedyKind.STOP
    assert verdict.remedy.because == STOPS[OomSubject.DATA]
    verdict = Story(Cause.DEVICE_OOM).fail(subject=OomSubject.EVALUATION)
    assert verdict.remedy.kind is RemedyKind.STOP


def test_a_validation_that_had_room_before_gets_a_fresh_process() -> None:
    """What the script keeps of each epoch is gone then; if it has none there, it stops."""
    story = Story(Cause.DEVICE_OOM)
    first = story.fail(subject=OomSubject.EVALUATION, validated=True)
    assert (first.remedy.kind, first.remedy_step) == (RemedyKind.RESTART, "leftovers")
    assert "of the steps that are done" in first.remedy.because
    last = story.fail(subject=OomSubject.EVALUATION, validated=True)
    assert last.remedy.because == STOPS[OomSubject.EVALUATION]
    assert last.remedy.kind is RemedyKind.STOP


FULL = MemoryFigures(limit_bytes=100, in_use_bytes=95, requested_bytes=6)


def test_a_batch_without_room_before_any_step_stops_the_run() -> None:
    """After the one attempt that found out: slices of a batch that cannot be read help
    nothing."""
    story = Story(Cause.DEVICE_OOM)
    assert story.fail(step=0, steps_done=0).remedy.kind is RemedyKind.MICROBATCH
    last = story.fail(subject=OomSubject.BATCH, step=None, steps_done=0, memory=FULL)
    assert last.remedy.kind is RemedyKind.STOP
    assert last.remedy.because == STOPS[OomSubject.BATCH]


@pytest.mark.parametrize(
    "memory",
    [
        None,
        replace(FULL, limit_bytes=None),
        replace(FULL, in_use_bytes=None),
        replace(FULL, requested_bytes=None),
        replace(FULL, in_use_bytes=94),
    ],
)
def test_a_batch_without_room_below_the_limit_is_tried_again(
    memory: MemoryFigures | None,
) -> None:
    """Somebody else may have had what was missing, or it lay in pieces."""
    story = Story(Cause.DEVICE_OOM)
    verdict = story.fail(
        subject=OomSubject.BATCH, step=None, steps_done=0, memory=memory
    )
    assert verdict.remedy.kind is RemedyKind.MICROBATCH


def test_a_batch_is_tried_again_where_there_was_room_once() -> None:
    """On a GPU the limit is what others left: where a step was done before, where it was
    larger, or where somebody holds a part of the device, it may be so again."""
    trained = Story(Cause.DEVICE_OOM)
    trained.fail(step=10)
    larger = Story(Cause.DEVICE_OOM)
    before = AttemptHistory(number=1, batch=64, limit_bytes=101)
    larger.history = replace(larger.history, attempts=(before,))
    shared = replace(
        _autopsy(OomVerdict.CAPACITY, OomSubject.BATCH),
        tenants=(Holder(what="processes that the driver does not name", bytes=9),),
    )
    alone = Story(Cause.DEVICE_OOM)
    for story, autopsy in ((trained, None), (larger, None), (alone, shared)):
        verdict = story.fail(
            subject=OomSubject.BATCH,
            step=None,
            steps_done=0,
            memory=FULL,
            autopsy=autopsy,
        )
        assert verdict.remedy.kind is RemedyKind.MICROBATCH


def test_a_foreign_tenant_is_waited_for_all_the_same() -> None:
    """Weights may fit once it is gone; slices are left out there too."""
    story = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),))
    remedy_steps = story.remedy_steps(
        4, subject=OomSubject.WEIGHTS, step=None, steps_done=0
    )
    assert remedy_steps == ["wait", None, None, None]


def _autopsy(verdict: OomVerdict, subject: OomSubject) -> OomAnalysis:
    found = autopsy_of(Cause.DEVICE_OOM, None, Evidence(exit=None).memory)
    assert found is not None
    return replace(found, verdict=verdict, subject=subject)


# --- what a person is told ---


@pytest.mark.parametrize("subject", list(OomSubject))
def test_advice_and_explanation_name_the_subject(subject: OomSubject) -> None:
    """The figures and the cause stay what they are."""
    evidence = Evidence(
        exit=exit_record(code=1), crash=oom_report(None), limited=True, subject=subject
    )
    diagnosis = examined(diagnose(evidence), evidence)
    assert diagnosis.cause is Cause.DEVICE_OOM
    assert diagnosis.autopsy is not None
    assert diagnosis.autopsy.subject is subject
    in_step = subject is OomSubject.STEP
    assert (diagnosis.advice == ADVICE_FOR.get(subject)) is not in_step
    paragraph = autopsy_paragraph(asdict(diagnosis.autopsy), None)
    assert (SUBJECTS.get(subject, "…") in paragraph) is not in_step
    old: dict[str, Any] = asdict(diagnosis.autopsy)
    del old["subject"]  # an incident that an older version wrote down
    assert autopsy_paragraph(old, None) in paragraph


def test_an_exception_of_another_name_is_memory_where_training_says_so() -> None:
    """A constant of a graph for which there is no room is one that cannot be parsed."""
    crash = replace(
        oom_report(0),
        exception="tensorflow.python.framework.errors_impl.InvalidArgumentError",
        message="Cannot parse tensor from proto",
    )
    evidence = Evidence(exit=exit_record(code=1), crash=crash, limited=True)
    assert diagnose(evidence).cause is not Cause.DEVICE_OOM
    told = replace(evidence, crash=replace(crash, memory="optimizer"))
    assert diagnose(told).cause is Cause.DEVICE_OOM
    on_cpu = replace(told, limited=False, dump=MemoryFigures(allocator="mklcpu"))
    assert diagnose(on_cpu).cause is Cause.HOST_OOM


def test_an_allocation_that_failed_before_is_the_cause() -> None:
    """Keras goes on after some failures; what it comes to is no error of the script."""
    crash = replace(
        oom_report(0),
        exception="AttributeError",
        message="'SymbolicTensor' object has no attribute 'handle'",
    )
    evidence = Evidence(exit=exit_record(code=1), crash=crash, limited=True)
    assert diagnose(evidence).cause is Cause.USER_ERROR
    text = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{node a}} OOM when allocating tensor with shape[20,20] and type float"  # as it is
    noted = replace(evidence, crash=replace(crash, allocation=text, memory="weights"))
    diagnosis = examined(diagnose(noted), noted)
    assert diagnosis.cause is Cause.DEVICE_OOM
    assert diagnosis.autopsy is not None
    assert diagnosis.autopsy.shape == (20, 20)
