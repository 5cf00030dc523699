"""The trials of a script, by what its training process tells of each."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import FIGURES, Diagnosis, Reason
from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.core.memory.alternatives import AlternativeAxis, slices_in
from supervisor.core.memory.bfc_map import Chunk, MemoryMap
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.trial_results import TrialOutcome
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.runtime.measuring import measured_attempt
from supervisor.runtime.measuring.alternative_trials import Advice, AlternativeTrials
from supervisor.runtime.measuring.trial_attempt import TrialQuestion
from supervisor.runtime.run_setup import Job
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.trial_records import TrialEnd, TrialFit, TrialStep
from supervisor.wire.slices import count
from tests.support.advice import FIT

BATCH, LIMIT, POOL = 32, 1000, 10_000
BETWEEN = 100
Told = list[tuple[str, dict[str, Any]]]
Training = Callable[[int | None, bool], Told]
"""What is told of a trial in slices of so many samples (None: the whole batch), and
whether it is under the limit."""


def steps(peak: int) -> Told:
    """All of them were made."""
    step = TrialStep(steps=1, seconds=0.1, loss=1.0, peak_bytes=peak)
    end = TrialEnd(between_bytes=BETWEEN, weights="w")
    return [
        *[(RecordKind.TRIAL_STEP, step.to_json())] * 3,
        (RecordKind.TRIAL_END, end.to_json()),
    ]


def sliced(*slices: int) -> Told:
    """The batch is in so many slices, one after the other."""
    return [
        (RecordKind.MICROBATCH, {"slices": one, "deviations": []}) for one in slices
    ]


def no_room() -> Told:
    """Memory ran out."""
    fields = {"reason": RefusalReason.MEMORY, "sentence": "too large"}
    return [(RecordKind.REFUSED, fields)]


def quiet(_text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:  # Notifier
    """Nobody waits for it."""


def advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, training: Training
) -> Advice:
    """What comes of slices of such a script."""

    def hear(
        spec: Spec,
        directive: Directive,
        paths: AttemptPaths,  # noqa: ARG001  # the real one's
        *,
        patience_seconds: float,  # noqa: ARG001  # as above
        tell: Callable[[Record], None],
    ) -> None:
        limited = spec.memory.cpu == LIMIT
        told = training(directive.slice_size, limited)
        for kind, fields in [(RecordKind.TRIAL_FIT, FIT.to_json()), *told]:
            tell(Record(kind, 1, fields))

    monkeypatch.setattr(measured_attempt, "hear", hear)
    return _advice_of(tmp_path, frozenset({AlternativeAxis.SLICES}))


def _advice_of(tmp_path: Path, only: frozenset[AlternativeAxis]) -> Advice:
    return trials_of(tmp_path, only, say=quiet).advice()


def trials_of(
    tmp_path: Path, only: frozenset[AlternativeAxis], *, say: Notifier
) -> AlternativeTrials:
    """Of a script, in a directory of their own."""
    script = tmp_path / "train.py"
    script.write_text("pass")
    spec = build_spec({"script": str(script), "working_directory": str(tmp_path)})
    question = TrialQuestion(
        limit_bytes=LIMIT,
        on_gpu=False,
        pool_bytes=POOL,
        steps=3,
        patience_seconds=1,
        only=only,
    )
    job = Job(name="train", spec=spec, script=script, script_hash="h")
    root = tmp_path / "trials"
    root.mkdir()
    return AlternativeTrials(job, question, root, say=say)


def asked_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fit: TrialFit,
    *axes: AlternativeAxis,
) -> tuple[Advice, list[tuple[Spec, Directive]]]:
    """What each trial of a script with such a ``fit`` is started with; none: all axes."""
    asked: list[tuple[Spec, Directive]] = []

    def hear(
        spec: Spec,
        directive: Directive,
        paths: AttemptPaths,  # noqa: ARG001  # the real one's
        *,
        patience_seconds: float,  # noqa: ARG001  # as above
        tell: Callable[[Record], None],
    ) -> None:
        asked.append((spec, directive))
        for kind, fields in [(RecordKind.TRIAL_FIT, fit.to_json()), *steps(100)]:
            tell(Record(kind, 1, fields))

    monkeypatch.setattr(measured_attempt, "hear", hear)
    return _advice_of(tmp_path, frozenset(axes or AlternativeAxis)), asked


def outcomes(advice: Advice) -> dict[int, TrialOutcome]:
    """By the number of slices."""
    return {slices_in(one.combination): one.result.outcome for one in advice.trials}


def test_slices_that_a_run_would_leave_are_none_that_the_batch_cannot_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two slices come so near the limit that training goes on in three, as in a run. So
    more are tried, and one that fits is advised."""

    def training(size: int | None, limited: bool) -> Told:  # noqa: FBT001  # Training
        if size is None:
            return no_room() if limited else steps(1900)
        slices = count(batch=BATCH, size=size)
        if slices == 2:
            return [*sliced(2, 3), *steps(990)]
        return [*sliced(slices), *steps(BETWEEN + 1800 // slices)]

    found = advised(tmp_path, monkeypatch, training)
    by_slices = outcomes(found)
    assert by_slices[2] is TrialOutcome.TOO_NEAR
    assert by_slices[4] is TrialOutcome.MEASURED
    near = next(one for one in found.trials if slices_in(one.combination) == 2)
    assert near.result.because == (
        "the trial went on in 3 slices; a run finds its own number, and may need more"
    )
    assert near.result.slices_made == 3
    assert found.best is not None
    assert slices_in(found.best.combination) >= 3


@pytest.mark.parametrize(
    ("told", "because"),
    [
        ([], "the batch is not sliced"),
        ([(RecordKind.NOTICE, {"sentence": "The batch is not sliced: why."})],
         "The batch is not sliced: why."),
        (sliced(1), "the first batch has too few samples for that: it has 1 of such slices"),
    ],
)  # fmt: skip
def test_a_batch_that_is_not_sliced_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told, because: str
) -> None:
    """It is said why."""

    def training(size: int | None, limited: bool) -> Told:  # noqa: FBT001  # Training
        if size is None:
            return no_room() if limited else steps(1500)
        return [*told, *steps(900)]

    found = advised(tmp_path, monkeypatch, training)
    assert outcomes(found)[2] is TrialOutcome.NOT_APPLIED
    assert found.trials[-1].result.because == because
    assert found.best is None


def test_what_was_asked_for_stands_beside_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what there was of it: one block that is too large looks so, and so does a limit
    that is full of small ones."""
    figures = Reason("4 MiB asked for; 110 MiB of 110 MiB in use.", FIGURES)
    chunks: list[Chunk] = []

    def diagnosis_of(spec: Spec, paths: AttemptPaths) -> Diagnosis:  # noqa: ARG001  # the real one's
        found = Reason("OOM when allocating", "tf_oom")
        memory = MemoryFigures(requested_bytes=4 * 2**20)
        because = (found, figures)
        return Diagnosis(cause=Cause.DEVICE_OOM, because=because, memory=memory)

    def map_of(paths: AttemptPaths) -> MemoryMap:  # noqa: ARG001  # the real one's
        return MemoryMap(allocator="a", chunks=tuple(chunks))

    def training(size: int | None, limited: bool) -> Told:  # noqa: ARG001, FBT001  # Training
        return steps(800) if size is None else []

    def because(name: str) -> str:
        (tmp_path / name).mkdir()
        found = advised(tmp_path / name, monkeypatch, training)
        assert outcomes(found)[2] is TrialOutcome.NO_ROOM
        by_slices = {slices_in(one.combination): one for one in found.trials}
        return by_slices[2].result.because

    monkeypatch.setattr(measured_attempt, "diagnosis_of", diagnosis_of)
    monkeypatch.setattr(measured_attempt, "map_of", map_of)
    assert because("plain") == "4 MiB asked for; 110 MiB of 110 MiB in use"
    mib = 2**20
    chunks.append(
        Chunk(address=0, size=104 * mib, requested_size=90 * mib, in_use=True)
    )
    assert because("whole") == (
        "4 MiB asked for; 110 MiB of 110 MiB in use, 104 MiB of it for a block of 90 MiB"
        " (the allocator does not cut a free block that is not twice as large): with other"
        " blocks beside it, in a run, it may fit"
    )


def test_what_is_changed_of_the_data_is_told_to_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a trial each, and in no other."""
    fit = replace(
        FIT,
        read_ahead=8,
        lone_maps=2,
        cache_place="before shuffle",
        array_bytes=50,
        sizes="images",
    )
    axes = (
        AlternativeAxis.ARRAYS,
        AlternativeAxis.READ_AHEAD,
        AlternativeAxis.MAPS,
        AlternativeAxis.CACHE,
        AlternativeAxis.SIZE,
    )
    found, asked = asked_of(tmp_path, monkeypatch, fit, *axes)
    changes = [
        (
            one.trial_streamed,
            one.trial_read_ahead,
            one.trial_parallel_maps,
            one.trial_cached,
            one.trial_half_size,
        )
        for _, one in asked
    ]
    plain = (False, None, False, False, False)
    assert changes[0] == plain
    assert changes[1:6] == [
        (True, None, False, False, False),
        (False, 1, False, False, False),
        (False, None, True, False, False),
        (False, None, False, True, False),
        (False, None, False, False, True),
    ]
    assert changes[-1] == plain
    assert found.not_tried == ()


def test_a_setting_of_a_gpu_is_a_variable_of_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of that one alone."""
    fit = replace(FIT, device="GPU", convolutions=1)
    axis = AlternativeAxis.CUDNN_AUTOTUNE
    _, asked = asked_of(tmp_path, monkeypatch, fit, axis)
    values = [spec.environment.get("TF_CUDNN_USE_AUTOTUNE") for spec, _ in asked]
    assert values == [None, "0", None]


def test_what_fits_few_scripts_is_told_who_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And else costs neither a trial nor a line."""
    found, asked = asked_of(tmp_path, monkeypatch, FIT, AlternativeAxis.ARRAYS)
    assert [one.because for one in found.not_tried] == [
        "it holds no arrays of data, or small ones"
    ]
    assert len(asked) == 2  # as it is, and once more
    (tmp_path / "other").mkdir()
    found, _ = asked_of(tmp_path / "other", monkeypatch, FIT)
    assert {one.alternative.axis for one in found.not_tried} == {
        AlternativeAxis.ALLOCATOR
    }


def ended_in(monkeypatch: pytest.MonkeyPatch, trial: int) -> None:
    """Ctrl-C in this one of the trials; all before fit."""
    begun: list[int] = []

    def hear(
        spec: Spec,  # noqa: ARG001  # the real one's
        directive: Directive,
        paths: AttemptPaths,  # noqa: ARG001  # as above
        *,
        patience_seconds: float,  # noqa: ARG001  # as above
        tell: Callable[[Record], None],
    ) -> None:
        begun.append(1)
        if len(begun) == trial:
            raise KeyboardInterrupt
        size = directive.slice_size
        told = [] if size is None else sliced(count(batch=BATCH, size=size))
        for kind, fields in [(RecordKind.TRIAL_FIT, FIT.to_json()), *told, *steps(500)]:
            tell(Record(kind, 1, fields))

    monkeypatch.setattr(measured_attempt, "hear", hear)


def test_each_trial_says_which_of_how_many_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second on; what comes of the last is as many as were counted."""
    said: list[str] = []

    def say(text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:  # noqa: ARG001  # Notifier
        said.append(text)

    ended_in(monkeypatch, trial=0)
    trials_of(tmp_path, frozenset({AlternativeAxis.SLICES}), say=say).advice()
    begun = [one for one in said if not one.startswith("  ")]
    assert begun[0].startswith("trying: as it is (how many trials there are")
    assert begun[1].startswith("trying: 2 slices (2 of at most 5; about ")
    assert begun[-1].startswith("as it is, once more (5 of at most 5; about ")


def test_what_was_measured_before_it_was_ended_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how many trials were left at most; the one that was ended is one of them."""
    ended_in(monkeypatch, trial=4)
    trials = trials_of(tmp_path, frozenset({AlternativeAxis.SLICES}), say=quiet)
    with pytest.raises(KeyboardInterrupt):
        trials.advice()
    found = trials.so_far()
    assert found is not None
    assert [slices_in(one.combination) for one in found.trials] == [1, 2, 4]
    assert (found.left, found.whole) == (2, False)
    assert found.best is not None


def test_nothing_is_told_of_a_script_that_was_ended_in_its_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing yet."""
    ended_in(monkeypatch, trial=1)
    trials = trials_of(tmp_path, frozenset(AlternativeAxis), say=quiet)
    with pytest.raises(KeyboardInterrupt):
        trials.advice()
    assert trials.so_far() is None
