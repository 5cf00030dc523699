"""The trials of a script: as it is, then each alternative, then what is worth combining.

Each is a process of its own, from the same start, under the limit. Where the script does
not fit as it is, it is tried once more in all the main memory that is free, on the CPU, so
that there is something to compare with. At the end it is tried as it is again: what differs
then is what the machine, or the script by itself, does.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.core.memory import best_combination, trial_results
from supervisor.core.memory.alternatives import (
    AS_IT_IS,
    AlternativeAxis,
    Combination,
    NotTried,
    of_slices,
    slices_in,
    title_of,
    to_try,
)
from supervisor.core.memory.best_combination import Compared
from supervisor.core.memory.trial_results import TrialOutcome, TrialResult
from supervisor.core.memory.trials_left import most_combinations, slices_left
from supervisor.core.text.log_level import Notifier
from supervisor.core.text.units import format_size, format_step
from supervisor.runtime.measuring.trial_attempt import (
    AdviseError,
    TrialAttempt,
    TrialQuestion,
)
from supervisor.runtime.measuring.trial_countdown import TrialCountdown
from supervisor.runtime.run_setup import Job
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.trial_records import TrialFit

NEVER_REACHED = "the script failed before its first step: no alternative can be tried"
COMBINATIONS = 3
"""That are tried at most."""


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

    def _trial(self, combination: Combination, *, limited: bool) -> TrialResult:
        """Raises AdviseError."""
        self._count += 1
        began = time.monotonic()
        attempt = TrialAttempt(self._job, self._question, self._root / str(self._count))
        result = attempt.run(combination, limited=limited, batch=self._batch)
        self._countdown.took(time.monotonic() - began)
        if not (result.measured or combination):
            self._failed = attempt.failed_by_itself
        return result

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


def _said(result: TrialResult) -> str:
    """What came of it, for who waits."""
    if not result.measured:
        return ": ".join(filter(None, (result.outcome, result.because)))
    peak, seconds = result.peak_bytes, result.step_seconds
    said = "peak not known" if peak is None else f"peak {format_size(peak)}"
    return said if seconds is None else f"{said}, {format_step(seconds)} a step"
