"""A script that is started to be measured: up to its first ``fit``, in one attempt.

It has the launcher and the training side that a run has, and a directory of its own that is
removed after. No GPU is seen by it, and what it would need is measured in main memory.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.memory.step_estimate import StepEstimate
from supervisor.core.text.log_level import Notifier
from supervisor.core.text.units import format_duration
from supervisor.host.launch.launcher import LaunchError
from supervisor.runtime.measuring import measured_attempt
from supervisor.runtime.measuring.measured_attempt import TakesTooLongError
from supervisor.runtime.run_setup import Job
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory

NO_FIT = (
    "the script came to its end without a call of model.fit: there is nothing that an"
    " estimate could be made of"
)
UNFINISHED = (
    "the trial of a larger batch ended the process: it may have run out of the memory of"
    " this machine"
)
TOO_LONG = (
    "it did not come to an end of its measurement in {}: where the script itself takes"
    " longer until its fit, say --patience"
)


class EstimateError(Exception):
    """There is no estimate: the sentence says why."""

    def __init__(self, sentence: str, *, failed: AttemptPaths | None = None) -> None:
        self.failed = failed
        """The attempt that failed by itself, if that is why."""
        super().__init__(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateQuestion:
    """What is to be measured."""

    pool_bytes: int
    """Main memory that trials may use."""
    seconds: float
    """About so long for trials."""
    patience_seconds: float
    """Until the script has to have come to its end or to its ``fit``, and that measured."""
    batch: int | None = None
    jit: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredScript:
    """What was measured."""

    estimate: StepEstimate
    notes: tuple[str, ...]
    """What a person has to know of it: why no larger batch was tried, say."""
    seconds: float


class Estimation:
    """One script, measured once."""

    def __init__(
        self, job: Job, question: EstimateQuestion, root: Path, *, say: Notifier
    ) -> None:
        """``root``: an empty directory, for the files of the attempt."""
        self._job, self._question, self._root = job, question, root
        self._say = say
        self._records: list[Record] = []

    def measured(self) -> MeasuredScript:
        """Start the script, and wait for what it tells.

        Raises:
            EstimateError: nothing was measured.
            LedgerError, OSError: the directory cannot be used.
        """
        began, question = time.monotonic(), self._question
        paths, directive = measured_attempt.planned(self._job, self._root)
        directive = replace(
            directive,
            estimate_seconds=question.seconds,
            estimate_batch=question.batch,
            estimate_jit=question.jit,
        )
        try:
            measured_attempt.hear(
                self._job.spec,
                directive,
                paths,
                patience_seconds=question.patience_seconds,
                tell=self._hear,
            )
        except LaunchError as error:
            raise EstimateError(str(error)) from error
        except TakesTooLongError as error:
            patience = format_duration(question.patience_seconds)
            raise EstimateError(TOO_LONG.format(patience)) from error
        return self._found(paths, seconds=time.monotonic() - began)

    def _hear(self, record: Record) -> None:
        self._records.append(record)
        if record.kind == RecordKind.NOTICE:
            self._say(str(record.fields.get("sentence", "")))
        elif record.kind == RecordKind.STEP_MEMORY:
            self._say(f"tried: a batch of {record.fields.get('size')}")

    def _found(self, paths: AttemptPaths, *, seconds: float) -> MeasuredScript:
        told = {record.kind: record.fields for record in self._records}
        if (refused := told.get(RecordKind.REFUSED)) is not None:
            raise EstimateError(str(refused.get("sentence", "")))
        model = ModelMemory.from_json(told.get(RecordKind.MODEL_MEMORY, {}))
        steps = tuple(sorted(_steps(self._records), key=lambda one: one.size))
        if model is None or not steps:
            if (
                RecordKind.FINISHED in told
                and told[RecordKind.FINISHED].get("exit_code") == 0
            ):
                raise EstimateError(NO_FIT)
            message = "the script failed before anything of its fit was measured"
            raise EstimateError(message, failed=paths)
        ended = told.get(RecordKind.ESTIMATED)
        because = UNFINISHED if ended is None else str(ended.get("because", ""))
        return MeasuredScript(
            estimate=StepEstimate(model=model, steps=steps),
            notes=tuple(one for one in (because,) if one),
            seconds=seconds,
        )


def _steps(records: list[Record]) -> Iterator[StepMemory]:
    for record in records:
        if record.kind == RecordKind.STEP_MEMORY:
            found = StepMemory.from_json(record.fields)
            if found is not None:
                yield found
