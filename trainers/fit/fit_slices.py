"""The microbatching of a ``fit``, where the directive asks for it."""

from typing import Any

from supervisor.wire.reasons import RefusalReason
from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource
from trainers.fit.determinism import DEVIATES, REDUCED, SLICED
from trainers.fit.telemetry.fit_report import memory_limit
from trainers.microbatch.prepared import Prepared
from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks import framework_setup
from trainers.process.script import isolation
from trainers.state import model_build

UNBUILT = (
    "The batch is not sliced: the model's variables cannot be made without running a"
    " step ({})."
)
WHOLE_ONLY = "The batch is not sliced: on this backend of Keras a step works through it as a whole."
TOO_LARGE = (
    "memory ran out before a step was done, and on this backend of Keras a batch cannot be"
    " worked through in slices: make it smaller in the script (batch_size of fit, or batch"
    " of the data)"
)


class Slicing:
    """In how many slices the batches of one ``fit`` are worked through."""

    def __init__(self) -> None:
        self._prepared: Prepared | None = None

    def prepare(
        self,
        model: Any,
        source: DataSource,
        attempt: Attempt,
        *,
        iterator: Any,
        hopeless: bool,
    ) -> None:
        """Let ``model`` train in slices where the directive asks for it.

        ``iterator``: of the epochs, with Keras' own loop; ``hopeless``: no step was ever
        done.
        """
        self._prepared = _prepare(model, source, attempt, iterator, hopeless=hopeless)

    def restore(self) -> None:
        """Leave the model as it was."""
        if self._prepared is not None:
            self._prepared.restore()

    @property
    def prepared(self) -> bool:
        """Whether the model's step was changed."""
        return self._prepared is not None

    @property
    def daring(self) -> bool:
        """Whether the next step is the first of a size that might not fit."""
        return self._prepared is not None and self._prepared.daring

    @property
    def count(self) -> int:
        """In how many; 1: the batch is whole."""
        return self.now(None)[0]

    @property
    def is_reduced(self) -> bool:
        """Whether each slice is a batch of its own, with an update."""
        prepared = self._prepared
        return prepared is not None and prepared.mode == "reduce" and self.count > 1

    @property
    def why_not_exact(self) -> str | None:
        """What slices do to the promise; None: the batch is whole."""
        prepared = self._prepared
        if prepared is None or self.count == 1:
            return None
        if self.is_reduced:
            return REDUCED
        deviations = prepared.deviations
        return DEVIATES.format("; ".join(deviations)) if deviations else SLICED

    def now(self, batch: int | None) -> tuple[int, int | None]:
        """In how many slices, and of which size, ``batch`` samples are worked through."""
        prepared = self._prepared
        if prepared is None or prepared.size is None:
            return 1, batch
        return prepared.slices, prepared.size


def _prepare(
    model: Any, source: DataSource, attempt: Attempt, iterator: Any, *, hopeless: bool
) -> Prepared | None:
    """As ``Slicing.prepare``; None where there is nothing to undo."""
    directive = attempt.directive
    if directive.slice_size is None and not directive.calibrate:
        return None
    if not backend.fit.SLICES:
        if hopeless and directive.slice_ceiling is not None:
            framework_setup.refuse(attempt, RefusalReason.MEMORY, TOO_LARGE)
        attempt.notice(WHOLE_ONLY)
        return None
    if backend.fit.TAKES_ARRAYS:
        # What is still to be built ``fit`` builds by a batch of its data, which draws from
        # generators. Afterwards there would be nothing left, and other shuffles.
        keras_compat.build_for_any_size(model, iterator)
    if not backend.traces.TRACES:  # else ``fit`` does, right after
        iterator.reset()
    # A model that is built by its first step has no weights yet to examine.
    try:
        model_build.build_for_slices(model, source.element_spec)
    except model_build.UnbuildableError as error:
        attempt.notice(UNBUILT.format(error))
        return None
    module = isolation.load(backend.slicer)
    try:
        prepared: Prepared = module.prepare(
            model,
            slice_size=directive.slice_size,
            calibrate=directive.calibrate,
            slice_ceiling=directive.slice_ceiling,
            memory_limit_bytes=memory_limit(attempt),
            allow_inexact=directive.allow_inexact,
            first_batch=source.first_batch,
            report=attempt.say,
            reduce=directive.reduce,
            hopeless=hopeless,
            # Where we lowered the precision, memory is what is short, and there is no
            # whole batch in that precision to agree with.
            wide_products=directive.precision is None,
        )
    except module.MicrobatchRefusedError as error:
        framework_setup.refuse(attempt, error.reason, str(error))
        raise
    return prepared
