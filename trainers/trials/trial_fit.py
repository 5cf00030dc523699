"""The first ``fit`` of a script, tried for some steps.

It is held at its epoch iterator (``held_fit``), as for an estimate. The steps are made
there by the model's own train function, on the script's own data in the order that a run
would have.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import keras

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.trial_records import TrialEnd, TrialFit, TrialStep
from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource
from trainers.fit import compute_settings
from trainers.fit.compute_settings import AppliedSettings
from trainers.fit.fit_slices import Slicing
from trainers.fit.held_fit import FitMeasurement, HeldFit
from trainers.process.attempt_reporting import Attempt
from trainers.trials import input_size, lean_optimizer, trial_data
from trainers.trials.trial_data import TriedData

OWN_STEP = "the model has a train_step of the script's own: which optimizers it takes is not known"
CHUNK = 4
"""A pass is cut to a multiple of so many steps, in every trial, so that those with that
many steps in a call train on the same batches as the others."""


def _change(attempt: Attempt, model: Any) -> None:
    """Let ``model`` be what is to be tried, beside what a run would do, too."""
    directive = attempt.directive
    if directive.trial_optimizer is not None:
        if backend.fit.has_own_train_step(model):
            MEASUREMENT.refuse(attempt, OWN_STEP)
        try:
            lean_optimizer.replace(model, directive.trial_optimizer)
        except lean_optimizer.NotReplacedError as error:
            MEASUREMENT.refuse(attempt, str(error))
    if directive.trial_steps_per_execution is not None:
        model.steps_per_execution = directive.trial_steps_per_execution
        model.train_function = None


def _measure(held: HeldFit) -> None:
    try:
        data = trial_data.change(held)
    except trial_data.NotChangedError as error:
        MEASUREMENT.refuse(held.attempt, str(error))
    applied = compute_settings.apply(held.attempt, held.model, held.source)
    FitTrial(held, applied, data).run()


MEASUREMENT = FitMeasurement(
    reason=RefusalReason.NOT_TRIED,
    impossible="this fit cannot be tried: {}",
    several_devices="this fit trains on several devices at once: alternatives are tried on"
    " one; run the script without its strategy",
    why_not=lambda: backend.trials.WHY_NOT_STEPPED,
    change=_change,
    measure=_measure,
)


class FitTrial:
    """Some steps of one model."""

    def __init__(
        self, held: HeldFit, applied: AppliedSettings, data: TriedData
    ) -> None:
        self._attempt, self._model = held.attempt, held.model
        self._source, self._iterator = held.source, held.iterator
        self._applied, self._data = applied, data
        self._steps = (held.attempt.directive.trial_steps or 1) + data.untimed
        self._chunk = max(int(held.model.steps_per_execution or 1), 1)

    def run(self) -> None:
        """Make the steps, and tell of each."""
        iterator = self._iterator
        self._pass_steps = iterator.steps_per_epoch or iterator.num_batches
        self._tell_of_fit()
        Slicing().prepare(
            self._model,
            self._source,
            self._attempt,
            iterator=iterator,
            hopeless=False,
        )
        self._model.make_train_function()
        done = 0
        while done < self._steps:
            made = self._make_pass(self._steps - done)
            done += made
            if made == 0:
                break  # there are no more data
        self._tell_end()

    def _make_pass(self, steps: int) -> int:
        """Make so many ``steps``, or those of a pass; returns how many were made."""
        made = 0
        for batches in self._pass():
            stepped = backend.trials.stepped(self._model, batches)
            if stepped is None:
                break
            made += self._chunk
            told = TrialStep(
                steps=self._chunk,
                seconds=stepped.seconds,
                loss=_finite(stepped.loss),
                peak_bytes=stepped.peak_bytes,
            )
            self._attempt.say(RecordKind.TRIAL_STEP, **told.to_json())
            self._attempt.tick()
            if made >= steps:
                break
        return made

    def _pass(self) -> Iterator[Any]:
        source, iterator = self._source, self._iterator
        source.prepare(begun=source.begun + 1, drawn=0)
        iterator.data_adapter.on_epoch_begin()
        source.pass_began()
        batches = source.begin()
        whole = self._pass_steps
        if whole is not None and whole >= CHUNK:
            whole -= whole % CHUNK
        left = whole or self._steps
        while left >= self._chunk:
            left -= self._chunk
            yield batches
        iterator.data_adapter.on_epoch_end()

    def _tell_of_fit(self) -> None:
        model, directive = self._model, self._attempt.directive
        told = TrialFit(
            batch=self._source.batch or _size_of(self._source),
            pass_steps=self._pass_steps,
            backend=keras.backend.backend(),
            device=backend.trials.device(),
            precision=backend.fit.precision(
                model, wanted=directive.precision or _policy()
            ),
            loss_scaling=isinstance(
                getattr(model, "optimizer", None), keras.optimizers.LossScaleOptimizer
            ),
            jit=bool(model.jit_compile),
            jit_possible=keras_compat.may_be_compiled(model),
            own_step=backend.fit.has_own_train_step(model),
            optimizer=_optimizer_of(model),
            optimizer_bytes=self._bytes("optimizer"),
            weights_bytes=self._bytes("model"),
            steps_per_execution=self._chunk,
            recomputed=self._applied.recomputed,
            not_recomputed=self._applied.left_out,
            convolutions=input_size.convolutions(model),
            xla_flags=os.environ.get("XLA_FLAGS", ""),
            **asdict(self._data),
        )
        self._attempt.say(RecordKind.TRIAL_FIT, **told.to_json())

    def _bytes(self, group: str) -> int:
        return sum(value.nbytes for value in self._values(group))

    def _values(self, group: str) -> list[Any]:
        listed = backend.variables.listed(self._model)
        values = backend.values
        mine = [one for name, one in listed if name == group]
        return [values.array_of_value(one) for one in values.values_of(mine)]

    def _tell_end(self) -> None:
        digest = hashlib.blake2b(digest_size=16)
        for value in self._values("model"):
            digest.update(value.tobytes())
        told = TrialEnd(
            between_bytes=backend.trials.in_use(), weights=digest.hexdigest()
        )
        self._attempt.say(RecordKind.TRIAL_END, **told.to_json())


def _policy() -> str:
    found: str = keras.config.dtype_policy().name
    return found


def _size_of(source: DataSource) -> int | None:
    """Samples in a batch that belongs to no pass."""
    first = keras_compat.tree.flatten(source.first_batch())[0]
    shape = getattr(first, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) else None


def _optimizer_of(model: Any) -> str:
    found = getattr(model, "optimizer", None)
    inner = getattr(found, "inner_optimizer", found)
    return "" if inner is None else type(inner).__name__


def _finite(loss: float | None) -> float | None:
    return loss if loss is not None and math.isfinite(loss) else None
