"""The trials of a script: as it is, then each alternative, then what is worth combining.

Each is a process of its own, from the same start, under the limit. Where the script does
not fit as it is, it is tried once more in all the main memory that is free, on the CPU, so
that there is something to compare with. At the end it is tried as it is again: what differs
then is what the machine, or the script by itself, does.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import FIGURES, Diagnosis
from supervisor.core.jobs.spec import MemorySpec, Spec
from supervisor.core.memory import best_combination, trial_results
from supervisor.core.memory.alternatives import (
    AS_IT_IS,
    ON,
    AlternativeAxis,
    Combination,
    NotTried,
    has,
    of_slices,
    read_ahead_of,
    size_of_slice,
    slices_in,
    title_of,
    to_try,
    variables_of,
)
from supervisor.core.memory.best_combination import Compared
from supervisor.core.memory.bfc_map import MemoryMap, handed_out_whole
from supervisor.core.memory.trial_results import TrialOutcome, TrialResult, asked
from supervisor.core.memory.trials_left import most_combinations, slices_left
from supervisor.core.text.log_level import Notifier
from supervisor.core.text.units import format_duration, format_size, format_step
from supervisor.host.launch.launcher import LaunchError
from supervisor.runtime.measuring import measured_attempt
from supervisor.runtime.measuring.measured_attempt import TakesTooLongError
from supervisor.runtime.measuring.trial_countdown import TrialCountdown
from supervisor.runtime.run_setup import Job
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.trial_records import TrialEnd, TrialFit, TrialStep

NO_FIT = (
    "the script came to its end without a call of model.fit: there is nothing to try"
)
NEVER_REACHED = "the script failed before its first step: no alternative can be tried"
NOT_SLICED = "the batch is not sliced"
GOES_ON = (
    "the trial went on in {} slices; a run finds its own number, and may need more"
)
HANDED_OUT_WHOLE = (
    " (the allocator does not cut a free block that is not twice as large): with other blocks"
    " beside it, in a run, it may fit"
)
SMALLER_BATCH = "the first batch has too few samples for that: it has {} of such slices"
COMBINATIONS = 3
"""That are tried at most."""
NO_ROOM = frozenset(
    {
        Cause.DEVICE_OOM,
        Cause.DEVICE_OOM_FRAGMENTATION,
        Cause.CUDNN_ALLOC,
        Cause.HOST_OOM,
    }
)


class AdviseError(Exception):
    """There is no advice: the sentence says why."""

    def __init__(self, sentence: str, *, failed: AttemptPaths | None = None) -> None:
        self.failed = failed
        """The attempt that failed by itself, if that is why."""
        super().__init__(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialQuestion:
    """What is to be tried, and within what."""

    limit_bytes: int | None
    """Of the allocator; None: there is none."""
    on_gpu: bool
    """Whether training is to see the GPUs of the job; else it is on the CPU."""
    pool_bytes: int
    """Main memory that a trial on the CPU without a limit may use."""
    steps: int
    patience_seconds: float
    """For each trial."""
    only: frozenset[AlternativeAxis]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All that was found."""

    question: TrialQuestion
    fit: TrialFit
    as_it_is: TrialResult
    """Under the limit."""
    reference: TrialResult | None
    """What the others are compared with: the script as it is, under the limit or, where it
    does not fit, without one. None: it was measured nowhere."""
    again: TrialResult | None
    trials: tuple[Compared, ...]
    """What was tried, ``as_it_is`` first."""
    not_tried: tuple[NotTried, ...]
    seconds: float
    left: int | None = 0
    """Trials at most that were not made, as it was ended before; None: not known."""

    @property
    def whole(self) -> bool:
        """Whether all was tried that there is."""
        return self.left == 0

    @property
    def own_ratio(self) -> float | None:
        """How long the script as it is took at the end, as a part of what it took at the
        beginning; None: not known."""
        if self.reference is None or self.again is None:
            return None
        return trial_results.time_ratio(self.again, self.reference, None)

    @property
    def alike(self) -> float:
        """Step times within this factor are taken for the same."""
        return best_combination.alike_by(self.own_ratio)

    @property
    def best(self) -> Compared | None:
        """What to do; None: nothing that was tried fits."""
        limit = self.question.limit_bytes
        return best_combination.best(self.trials, limit, alike=self.alike)


class AlternativeTrials:
    """One script and its alternatives."""

    def __init__(
        self, job: Job, question: TrialQuestion, root: Path, *, say: Notifier
    ) -> None:
        """``root``: an empty directory, for the files of all attempts."""
        self._job, self._question, self._root = job, question, root
        self._say = say
        self._count = 0
        self._trials: list[TrialResult] = []
        self._reference: TrialResult | None = None
        self._batch: int | None = None
        self._failed: AttemptPaths | None = None
        self._again: TrialResult | None = None
        self._left_out: list[NotTried] = []
        self._countdown = TrialCountdown()
        self._began = time.monotonic()

    def advice(self) -> Advice:
        """Try all that there is to try.

        Raises:
            AdviseError: the script comes to no fit, or cannot be tried.
            LedgerError, OSError: the directory cannot be used.
        """
        self._began = time.monotonic()
        as_it_is = self._tried(AS_IT_IS)
        self._reference = self._measured_somewhere(as_it_is)
        fit = self._fit_of(as_it_is)
        self._batch = fit.batch
        peak = None if self._reference is None else self._reference.peak_bytes
        others, left = to_try(fit, peak)
        only = self._question.only
        self._left_out.extend(left)
        others = [one for one in others if one.axis in only]
        again = 0 if self._reference is None else 1
        later = len(others) + most_combinations(only, COMBINATIONS) + again
        self._try_slices(as_it_is, later=later)
        self._countdown.expect(later)
        for alternative in others:
            self._tried((alternative,))
        combinations = self._combinations()
        self._countdown.expect(len(combinations) + again)
        for combination in combinations:
            self._tried(combination)
        self._again = self._once_more(as_it_is)
        return self._found(as_it_is, fit, left=0)

    def so_far(self) -> Advice | None:
        """What was found where ``advice`` was ended before it was over; None: nothing that
        tells of the script."""
        as_it_is = self._trials[0] if self._trials else None
        fit = None if as_it_is is None else self._known_fit(as_it_is)
        if as_it_is is None or fit is None:
            return None
        left = self._countdown.left
        unfinished = 1  # what was begun, and is none of its results
        return self._found(
            as_it_is, fit, left=None if left is None else left + unfinished
        )

    def _found(
        self, as_it_is: TrialResult, fit: TrialFit, *, left: int | None
    ) -> Advice:
        return Advice(
            question=self._question,
            fit=fit,
            as_it_is=as_it_is,
            reference=self._reference,
            again=self._again,
            trials=tuple(self._compared(self._again)),
            not_tried=tuple(one for one in self._left_out if self._is_told(one)),
            seconds=time.monotonic() - self._began,
            left=left,
        )

    def _is_told(self, one: NotTried) -> bool:
        """What makes no sense for a script is told where somebody may expect it."""
        only = self._question.only
        by_name = only != frozenset(AlternativeAxis)
        return one.alternative.axis in only and (by_name or one.unasked)

    # --- what is tried ---

    def _measured_somewhere(self, as_it_is: TrialResult) -> TrialResult | None:
        if as_it_is.measured:
            return as_it_is
        question = self._question
        roomy = question.limit_bytes is not None and not question.on_gpu
        if as_it_is.outcome is not TrialOutcome.NO_ROOM or not roomy:
            return None
        which = self._countdown.begin()
        self._say(
            f"it does not fit as it is: it is tried without the limit, to compare ({which})"
        )
        found = self._trial(AS_IT_IS, limited=False)
        return found if found.measured else None

    def _fit_of(self, as_it_is: TrialResult) -> TrialFit:
        found = self._known_fit(as_it_is)
        if found is None:
            because = as_it_is.because or NEVER_REACHED
            raise AdviseError(because, failed=self._failed)
        return found

    def _known_fit(self, as_it_is: TrialResult) -> TrialFit | None:
        reference = self._reference
        return as_it_is.fit or (None if reference is None else reference.fit)

    def _try_slices(self, as_it_is: TrialResult, *, later: int) -> None:
        """``later``: the trials at most that come after those of slices."""
        if AlternativeAxis.SLICES not in self._question.only:
            return
        batch, fits = self._batch, as_it_is.measured
        if batch is None:
            self._leave_slices_out("the data do not say how large a batch is")
            return
        while (
            slices := best_combination.next_slices(self._trials, batch=batch, fits=fits)
        ) is not None:
            left = slices_left(self._trials, batch=batch, fits=fits)
            self._countdown.expect(left + later)
            self._tried((of_slices(slices),))
        if not any(slices_in(one.combination) > 1 for one in self._trials):
            self._leave_slices_out("the batch is too small")

    def _leave_slices_out(self, because: str) -> None:
        """Slices come first, as they are tried first."""
        self._left_out.insert(0, NotTried(alternative=of_slices(2), because=because))

    def _combinations(self) -> Sequence[Combination]:
        return best_combination.to_combine(
            list(self._compared(None)),
            as_it_is=self._reference,
            limit_bytes=self._question.limit_bytes,
            at_most=COMBINATIONS,
        )

    def _once_more(self, as_it_is: TrialResult) -> TrialResult | None:
        if self._reference is None:
            return None
        self._say(f"as it is, once more ({self._countdown.begin()})")
        again = self._trial(AS_IT_IS, limited=as_it_is.measured)
        return again if again.measured else None

    def _compared(self, again: TrialResult | None) -> Iterator[Compared]:
        reference = self._reference
        for one in self._trials:
            yield Compared(
                result=one,
                numbers=trial_results.compared(one, reference, again),
                ratio=None
                if reference is None
                else trial_results.time_ratio(one, reference, again),
            )

    # --- one trial ---

    def _tried(self, combination: Combination) -> TrialResult:
        self._say(f"trying: {title_of(combination)} ({self._countdown.begin()})")
        result = self._ruled_out(combination) or self._trial(combination, limited=True)
        self._say(f"  {_said(result)}")
        self._trials.append(result)
        return result

    def _ruled_out(self, combination: Combination) -> TrialResult | None:
        """The result without a trial, where it cannot fit; None: it may."""
        limit, reference = self._question.limit_bytes, self._reference
        if limit is None or reference is None or not combination:
            return None
        least = best_combination.least_peak(reference, combination)
        if least <= limit:
            return None
        return TrialResult(
            combination=combination,
            outcome=TrialOutcome.NOT_TRIED,
            because=f"it needs {format_size(least)} or more",
        )

    def _trial(self, combination: Combination, *, limited: bool) -> TrialResult:
        self._count += 1
        began = time.monotonic()
        root = self._root / str(self._count)
        (root / "tmp").mkdir(parents=True, mode=0o700)
        spec = self._spec(combination, limited=limited, temporary=root / "tmp")
        job = replace(self._job, spec=spec)
        paths, directive = measured_attempt.planned(job, root)
        heard: list[Record] = []
        try:
            measured_attempt.hear(
                spec,
                self._directed(directive, combination),
                paths,
                patience_seconds=self._question.patience_seconds,
                tell=heard.append,
            )
        except LaunchError as error:
            raise AdviseError(str(error)) from error
        except TakesTooLongError:
            patience = format_duration(self._question.patience_seconds)
            because = f"it was not over in {patience} (--patience)"
            outcome = TrialOutcome.FAILED, because
        else:
            outcome = self._outcome(heard, spec, paths, combination)
        result = trial_results.judged(
            _result(heard, combination, outcome, limited=limited),
            self._question.limit_bytes,
        )
        self._countdown.took(time.monotonic() - began)
        if result.measured or combination:
            shutil.rmtree(root, ignore_errors=True)
        else:
            self._failed = None if outcome[1] == NO_FIT else paths
        return result

    def _spec(
        self, combination: Combination, *, limited: bool, temporary: Path
    ) -> Spec:
        """The job's, where nothing is saved. ``temporary``: where it leaves what it has no
        time to remove, as it ends at once."""
        spec, question = self._job.spec, self._question
        limit = question.limit_bytes if limited else None
        environment = {"TMPDIR": str(temporary), **spec.environment}
        changes: dict[str, Any] = {
            "snapshots": spec.snapshots.model_copy(
                update={"memory": None, "remote": None}
            )
        }
        if question.on_gpu:
            changes["memory"] = MemorySpec(gpu=limit)
        else:
            changes["memory"] = MemorySpec(cpu=limit or question.pool_bytes)
            changes["gpus"] = ()
            environment["JAX_PLATFORMS"] = "cpu"
        environment.update(variables_of(combination))
        return spec.model_copy(update={**changes, "environment": environment})

    def _directed(self, directive: Directive, combination: Combination) -> Directive:
        slices = slices_in(combination)
        jit = asked(combination, AlternativeAxis.JIT)
        calls = asked(combination, AlternativeAxis.STEPS_PER_EXECUTION)
        recompute = has(combination, AlternativeAxis.RECOMPUTATION)
        size = size_of_slice(self._batch or 1, slices) if slices > 1 else None
        return replace(
            directive,
            trial_steps=self._question.steps,
            trial_optimizer=asked(combination, AlternativeAxis.OPTIMIZER),
            trial_steps_per_execution=None if calls is None else int(calls),
            trial_read_ahead=read_ahead_of(combination),
            trial_parallel_maps=has(combination, AlternativeAxis.MAPS),
            trial_streamed=has(combination, AlternativeAxis.ARRAYS),
            trial_half_size=has(combination, AlternativeAxis.SIZE),
            slice_size=size or directive.slice_size,
            precision=asked(combination, AlternativeAxis.PRECISION)
            or directive.precision,
            jit=directive.jit if jit is None else jit == ON,
            recompute=recompute or directive.recompute,
        )

    def _outcome(
        self,
        heard: Sequence[Record],
        spec: Spec,
        paths: AttemptPaths,
        combination: Combination,
    ) -> tuple[TrialOutcome, str]:
        told = {record.kind: record.fields for record in heard}
        refused = told.get(RecordKind.REFUSED)
        if refused is not None:
            reason = RefusalReason.read(refused.get("reason"))
            no_room = reason is RefusalReason.MEMORY
            outcome = TrialOutcome.NO_ROOM if no_room else TrialOutcome.NOT_APPLIED
            return outcome, str(refused.get("sentence", ""))
        if RecordKind.TRIAL_END in told:
            return _applied(told, combination)
        if told.get(RecordKind.FINISHED, {}).get("exit_code") == 0:
            return TrialOutcome.FAILED, NO_FIT
        found = measured_attempt.diagnosis_of(spec, paths)
        if found.cause in NO_ROOM:
            return TrialOutcome.NO_ROOM, _shortage(
                found, measured_attempt.map_of(paths)
            )
        reasons = found.because
        return TrialOutcome.FAILED, reasons[0].text if reasons else str(found.cause)


def _shortage(found: Diagnosis, memory_map: MemoryMap | None) -> str:
    """What was asked for, and what there was of it; empty: it is not known."""
    figures = (one.text for one in found.because if one.signature == FIGURES)
    said = next(figures, "").removesuffix(".")
    asked = None if found.memory is None else found.memory.requested_bytes
    if not said or asked is None or memory_map is None:
        return said
    whole = handed_out_whole(memory_map, asked_bytes=asked)
    if whole is None:
        return said
    held, needed = format_size(whole.size), format_size(whole.requested_size)
    return f"{said}, {held} of it for a block of {needed}{HANDED_OUT_WHOLE}"


def _applied(
    told: dict[str, dict[str, Any]], combination: Combination
) -> tuple[TrialOutcome, str]:
    """Whether what was measured is what was asked for."""
    fit = TrialFit.from_json(told.get(RecordKind.TRIAL_FIT, {}))
    precision = asked(combination, AlternativeAxis.PRECISION)
    if fit is not None and precision not in {None, fit.precision}:
        return (
            TrialOutcome.NOT_APPLIED,
            f"the script sets its own dtype policy, {fit.precision}",
        )
    if (
        fit is not None
        and asked(combination, AlternativeAxis.RECOMPUTATION)
        and not fit.recomputed
    ):
        return TrialOutcome.NOT_APPLIED, "no layer of the model can be computed again"
    return _as_sliced(told, slices_in(combination))


def _as_sliced(
    told: dict[str, dict[str, Any]], slices: int
) -> tuple[TrialOutcome, str]:
    """Whether it stayed at so many ``slices``, as a run would; 1: as the batch is."""
    made = told.get(RecordKind.MICROBATCH, {}).get("slices")
    if slices in {1, made}:
        return TrialOutcome.MEASURED, ""
    if made is None:
        notice = told.get(RecordKind.NOTICE, {})
        return TrialOutcome.NOT_APPLIED, str(notice.get("sentence", NOT_SLICED))
    if made > slices:  # a step too near the limit took a smaller one
        return TrialOutcome.TOO_NEAR, GOES_ON.format(made)
    return TrialOutcome.NOT_APPLIED, SMALLER_BATCH.format(made)


def _result(
    heard: Sequence[Record],
    combination: Combination,
    outcome: tuple[TrialOutcome, str],
    *,
    limited: bool,
) -> TrialResult:
    told = {record.kind: record.fields for record in heard}
    steps = (
        TrialStep.from_json(record.fields)
        for record in heard
        if record.kind == RecordKind.TRIAL_STEP
    )
    sliced = told.get(RecordKind.MICROBATCH, {})
    deviations, made = sliced.get("deviations", ()), sliced.get("slices")
    return TrialResult(
        combination=combination,
        outcome=outcome[0],
        because=outcome[1],
        fit=TrialFit.from_json(told.get(RecordKind.TRIAL_FIT, {})),
        steps=tuple(one for one in steps if one is not None),
        end=TrialEnd.from_json(told.get(RecordKind.TRIAL_END, {})),
        deviations=tuple(map(str, deviations)),
        slices_made=made if type(made) is int else None,
        limited=limited,
    )


def _said(result: TrialResult) -> str:
    """What came of it, for who waits."""
    if not result.measured:
        return ": ".join(filter(None, (result.outcome, result.because)))
    peak, seconds = result.peak_bytes, result.step_seconds
    said = "peak not known" if peak is None else f"peak {format_size(peak)}"
    return said if seconds is None else f"{said}, {format_step(seconds)} a step"
