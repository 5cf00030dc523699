"""One trial: an attempt of a script that makes some steps of its first ``fit``, with what a
combination of alternatives changes."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.core.jobs.spec import MemorySpec, Spec
from supervisor.core.memory import trial_results
from supervisor.core.memory.alternatives import (
    ON,
    AlternativeAxis,
    Combination,
    has,
    read_ahead_of,
    size_of_slice,
    slices_in,
    variables_of,
)
from supervisor.core.memory.trial_results import TrialOutcome, TrialResult, asked
from supervisor.core.text.units import format_duration
from supervisor.host.launch.launcher import LaunchError
from supervisor.runtime.measuring import measured_attempt
from supervisor.runtime.measuring.measured_attempt import TakesTooLongError
from supervisor.runtime.measuring.trial_reading import (
    NO_FIT,
    Outcome,
    diagnosed_outcome,
    result_of,
    told_outcome,
)
from supervisor.runtime.run_setup import Job
from supervisor.wire.event_file import Record
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths


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


class TrialAttempt:
    """One of them."""

    def __init__(self, job: Job, question: TrialQuestion, root: Path) -> None:
        """``root``: a directory that is not there yet, for its files."""
        self._job, self._question, self._root = job, question, root
        self.failed_by_itself: AttemptPaths | None = None
        """Its files, where the script as it is was not measured for a reason of its own."""

    def run(
        self, combination: Combination, *, limited: bool, batch: int | None
    ) -> TrialResult:
        """Make it. ``batch``: samples of the script's; None: not known, or not yet.

        Raises:
            AdviseError: it cannot be started.
            LedgerError, OSError: the directory cannot be used.
        """
        root = self._root
        (root / "tmp").mkdir(parents=True, mode=0o700)
        spec = self._spec(combination, limited=limited, temporary=root / "tmp")
        job = replace(self._job, spec=spec)
        paths, directive = measured_attempt.planned(job, root)
        heard: list[Record] = []
        try:
            measured_attempt.hear(
                spec,
                self._directed(directive, combination, batch),
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
            outcome = _outcome(heard, spec, paths, combination)
        result = trial_results.judged(
            result_of(heard, combination, outcome, limited=limited),
            self._question.limit_bytes,
        )
        if result.measured or combination:
            shutil.rmtree(root, ignore_errors=True)
        elif outcome[1] != NO_FIT:
            self.failed_by_itself = paths
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

    def _directed(
        self, directive: Directive, combination: Combination, batch: int | None
    ) -> Directive:
        slices = slices_in(combination)
        jit = asked(combination, AlternativeAxis.JIT)
        calls = asked(combination, AlternativeAxis.STEPS_PER_EXECUTION)
        recompute = has(combination, AlternativeAxis.RECOMPUTATION)
        size = size_of_slice(batch or 1, slices) if slices > 1 else None
        return replace(
            directive,
            trial_steps=self._question.steps,
            trial_optimizer=asked(combination, AlternativeAxis.OPTIMIZER),
            trial_steps_per_execution=None if calls is None else int(calls),
            trial_read_ahead=read_ahead_of(combination),
            trial_parallel_maps=has(combination, AlternativeAxis.MAPS),
            trial_cached=has(combination, AlternativeAxis.CACHE),
            trial_streamed=has(combination, AlternativeAxis.ARRAYS),
            trial_half_size=has(combination, AlternativeAxis.SIZE),
            slice_size=size or directive.slice_size,
            precision=asked(combination, AlternativeAxis.PRECISION)
            or directive.precision,
            jit=directive.jit if jit is None else jit == ON,
            recompute=recompute or directive.recompute,
        )


def _outcome(
    heard: Sequence[Record], spec: Spec, paths: AttemptPaths, combination: Combination
) -> Outcome:
    told = told_outcome(heard, combination)
    if told is not None:
        return told
    found = measured_attempt.diagnosis_of(spec, paths)
    return diagnosed_outcome(found, measured_attempt.map_of(paths))
