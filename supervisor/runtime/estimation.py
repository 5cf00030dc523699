"""A script that is started to be measured: up to its first ``fit``, in one attempt.

It has the launcher and the training side that a run has, and a directory of its own that is
removed after. No GPU is seen by it, and what it would need is measured in main memory.
"""

import contextlib
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.memory.step_estimate import StepEstimate
from supervisor.core.text.log_level import Notifier
from supervisor.core.text.units import format_duration
from supervisor.host.launch.direct import DirectAttempt, DirectLauncher
from supervisor.host.launch.launcher import LaunchError
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.clock import Clock
from supervisor.runtime.directive_builder import make_directive
from supervisor.runtime.run_setup import Job, ResumeOptions, begin
from supervisor.wire.directive import Directive
from supervisor.wire.estimate_records import ModelMemory, StepMemory
from supervisor.wire.event_file import EventReader, Record, RecordKind
from supervisor.wire.paths import AttemptPaths, StatePaths

NO_FIT = (
    "the script came to its end without a call of model.fit: there is nothing that an"
    " estimate could be made of"
)
UNFINISHED = (
    "the trial of a larger batch ended the process: it may have run out of the memory of"
    " this machine"
)
LOOK_SECONDS = 0.1
GRACE_SECONDS = 10.0
"""Between the end that was asked for and the one that is forced."""
BETWEEN_FAILURES_SECONDS = 86400.0
"""Nothing is saved: whatever the directive needs there."""


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
        began = time.monotonic()
        paths, directive = self._directed()
        try:
            attempt = DirectLauncher().launch(self._job.spec, directive, paths=paths)
            with _ended(attempt):
                self._follow(attempt, until=began + self._question.patience_seconds)
        except LaunchError as error:
            raise EstimateError(str(error)) from error
        return self._found(paths, seconds=time.monotonic() - began)

    def _directed(self) -> tuple[AttemptPaths, Directive]:
        paths = StatePaths(self._root)
        with closing(Ledger(paths.ledger)) as ledger:
            begun = begin(
                self._job, paths, ledger, Clock(), ResumeOptions(fresh=True), seed=0
            )
        directive = make_directive(
            begun.row,
            self._job.spec,
            begun.paths,
            1,
            None,
            between_failures=BETWEEN_FAILURES_SECONDS,
        )
        return begun.paths.attempt(1), replace(
            directive,
            estimate_seconds=self._question.seconds,
            estimate_batch=self._question.batch,
            estimate_jit=self._question.jit,
        )

    def _follow(self, attempt: DirectAttempt, *, until: float) -> None:
        reader = EventReader(attempt.paths.events)
        with closing(reader):
            while not (attempt.started() and attempt.ended()):
                self._hear(reader.poll())
                if time.monotonic() > until:
                    patience = format_duration(self._question.patience_seconds)
                    message = (
                        f"it did not come to an end of its measurement in {patience}:"
                        " where the script itself takes longer until its fit, say"
                        " --patience"
                    )
                    raise EstimateError(message)
                time.sleep(LOOK_SECONDS)
            self._hear(reader.poll())

    def _hear(self, records: list[Record]) -> None:
        for record in records:
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


@contextlib.contextmanager
def _ended(attempt: DirectAttempt) -> Generator[None]:
    """Nothing of it is left, however it is come out of this."""
    try:
        yield
    finally:
        until = time.monotonic() + GRACE_SECONDS
        while not attempt.ended() and time.monotonic() < until:
            with contextlib.suppress(LaunchError):
                attempt.started()  # who is to be killed is known from then on
            attempt.kill()
            time.sleep(LOOK_SECONDS)
        attempt.close()
