"""The preparation of a model: the sliced train step is put into it for one ``fit``.

Steps, schedules, callbacks, data order and the optimizer's variables stay what they
were, so a snapshot taken with one number of slices restores with any other.
"""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import keras

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import SizeSource
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.oom_subject import OomSubject
from supervisor.wire.slices import TIGHT_PART, count
from trainers.backends import keras_losses, slicing
from trainers.backends.memory.allocator_figures import Figures, PeakReading
from trainers.backends.selected import backend
from trainers.microbatch import custom_step_sizing, preconditions
from trainers.microbatch.calibration import Readings
from trainers.microbatch.calibration_run import CalibrationRun, readings_of
from trainers.microbatch.obstacles import (
    MicrobatchRefusedError,
    Obstacle,
    first_size,
    refuse_deviations,
    refused_parts,
    too_large,
)
from trainers.microbatch.prepared import Prepared
from trainers.microbatch.stepping_back import SteppedBack, stepped_back
from trainers.microbatch.strategy import Strategy, strategy_of
from trainers.process import allocation_subject

PEAK_NEWS = 1.02
"""A peak is reported again once it is this many times the last one reported."""

UNSLICED = (
    "more have not helped, as steps filled about {} of the limit of {} MiB whatever their"
    " number (weights, the state of the optimizer, the sum of gradients, the whole batch,"
    " data and buffers of fixed size do not shrink with it). A smaller model, an optimizer that keeps less (SGD, Lion,"
    " Adafactor), mixed precision or a larger limit would make room."
)

Report = Callable[..., None]


def prepare(
    model: Any,
    *,
    slice_size: int | None,
    calibrate: bool,
    slice_ceiling: int | None,
    memory_limit_bytes: int | None,
    allow_inexact: bool,
    first_batch: Callable[[], Any],
    report: Report,
    hopeless: bool = False,
    reduce: str | None = None,
    wide_products: bool = True,
) -> Prepared:
    """Slice the batches of the ``fit`` that is about to make its train function.

    ``slice_size``: samples a slice. ``calibrate``: find the largest slice below
    ``slice_ceiling`` (a size that failed) that fits ``memory_limit_bytes``, in the
    first steps; ``slice_size`` is then what to do where nothing can be measured.
    ``first_batch`` returns one whole batch, (x, y[, sample weights]), and leaves the
    data position alone. ``report(kind, **fields)`` appends to the event file.
    ``hopeless``: training has never got anywhere with the whole batch, so a batch that
    cannot be sliced is refused, and told is which would fit. ``reduce``: for a
    ``train_step`` of the script's own each batch may become several smaller ones, with
    the learning rate by this rule (``rebatch_step``); None: it may not.
    ``wide_products``: kernels in half precision may take float32 copies, to agree with
    whole batches (``float32_accumulation``).

    Without a size and without ``calibrate``, nothing is touched.

    Raises:
        MicrobatchRefusedError: slices would deviate and ``allow_inexact`` is False, or
            the batch is ``hopeless``.
    """
    if slice_size is None and not calibrate:
        return Prepared()
    limit = _least(memory_limit_bytes, backend.slices.limit_bytes())
    rule = reduce if backend.fit.has_own_train_step(model) else None
    with _trying(hopeless=hopeless):
        data = first_batch()
        batch = keras.utils.unpack_x_y_sample_weight(data)
        strategy = _strategy(
            model, batch, rule=rule, ceiling=slice_ceiling, products=wide_products
        )
    if isinstance(strategy, Obstacle):
        if hopeless and slice_ceiling is not None:
            raise _too_large(model, data, slice_ceiling, limit=limit, obstacle=strategy)
        report(RecordKind.NOTICE, sentence=f"The batch is not sliced: {strategy.why}.")
        return Prepared()
    if not allow_inexact:
        refuse_deviations(strategy.deviations)
    total = _of_one_replica(model, batch)
    climbs = calibrate and limit is not None and backend.slices.peak() is not None
    size, source = first_size(total, slice_size, slice_ceiling, climbs=climbs)
    return _Installation(
        model=model,
        batch=total,
        strategy=strategy,
        size=size,
        source=source,
        ceiling=slice_ceiling,
        limit_bytes=limit,
        report=report,
    ).install()


def _least(*limits: int | None) -> int | None:
    """Of those that are known."""
    return min((one for one in limits if one), default=None)


@contextlib.contextmanager
def _trying(*, hopeless: bool) -> Generator[None]:
    """A batch is read and tried out. Where no step was ever done nothing is there beside
    it that slices make smaller: none finds room where that finds none. What is noted on
    the way (the state of the optimizer, say) is known better."""
    watch = allocation_subject.watch
    noted = watch.count
    try:
        yield
    except Exception as error:  # of any kind: it goes on to who called
        if hopeless and watch.count == noted:
            watch.note(error, OomSubject.BATCH)
        raise


def _strategy(
    model: Any, batch: Any, *, rule: str | None, ceiling: int | None, products: bool
) -> Strategy | Obstacle:
    """How to slice ``batch``, in the words of ``prepare``."""
    why_not = preconditions.obstacle(model, batch, own_step_too=rule is not None)
    if why_not is not None:
        return Obstacle(why_not)
    ceiling = ceiling or _of_one_replica(model, batch)
    try:
        return strategy_of(model, batch, rule=rule, ceiling=ceiling, products=products)
    except Exception as error:  # noqa: BLE001  # whatever the script's model raises
        return Obstacle(refused_parts(error), whole_only=True)


def _of_one_replica(model: Any, batch: Any) -> int:
    """Samples of a batch that one device works through."""
    samples = int(slicing.leaves(batch[0])[0].shape[0])
    return -(-samples // backend.fit.replicas_of(model))


def _too_large(
    model: Any, data: Any, failed: int, *, limit: int | None, obstacle: Obstacle
) -> MicrobatchRefusedError:
    """Where no smaller batch would do either, none is looked for."""
    fits = None
    if not obstacle.whole_only:
        fits = custom_step_sizing.fitting(model, data, failed=failed, limit_bytes=limit)
    own_step = backend.fit.has_own_train_step(model)
    return too_large(obstacle, failed=failed, fits=fits, reducible=own_step)


_KEPT = "_trainwarden_sliced"
"""Attribute of a model: what its sliced train function was made for, and that function.
A script that calls ``fit`` for every epoch must not trace its model every time. It
stands in the model's own dictionary, so that it goes when the model goes."""


@dataclass(kw_only=True)
class _Installation:
    """The changes to one model."""

    model: Any
    batch: int
    strategy: Strategy
    size: int
    source: SizeSource
    """Of ``size``."""
    ceiling: int | None
    limit_bytes: int | None
    report: Report
    _reported_peak: int = 0
    _first_back: SteppedBack | None = None
    _stays: bool = False
    """Smaller slices were of no help, and that is said."""
    _calibration: CalibrationRun | None = None

    def install(self) -> Prepared:
        """Change the model, and report it."""
        model = self.model
        made_for = (
            model.optimizer,
            keras_losses.loss_tracker(model),
            self.strategy.rules,
        )
        kept = vars(model).get(_KEPT)
        self._made = kept[1] if kept and _same(kept[0], made_for) else _Made()
        self._made.size.assign(self.size)
        vars(model)[_KEPT] = (made_for, self._made)
        climbs = self.source is SizeSource.TRIAL
        if climbs:
            self._calibration = self._new_calibration()
        before = model.train_function
        model.train_function = None
        model.train_step = self.strategy.step(
            size=self._made.size, seen=self._made.seen
        )
        model.make_train_function = self._make_train_function

        def restore() -> None:
            del model.train_step, model.make_train_function
            model.train_function = before

        if slower := backend.slices.compiles_less(model):
            self.report(RecordKind.NOTICE, sentence=slower)
        said = "being measured" if climbs else "as planned"
        self._on_size(self.size, self.source, said)
        return Prepared(
            batch=self.batch,
            mode=self.strategy.mode,
            deviations=self.strategy.deviations,
            restore=restore,
            _size=lambda: int(self._made.size.numpy()),
            _calibration=self._calibration,
        )

    def _make_train_function(self, force: bool = False) -> None:  # noqa: FBT001, FBT002  # Keras' own signature
        model = self.model
        if model.train_function is not None and not force:
            return
        if self._made.function is None or force:
            with keras_losses.without_jit(model):
                type(model).make_train_function(model, force=True)
            self._made.function = model.train_function
        model.train_function = self._measuring(self._made.function)

    def _measuring(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def train_function(iterator: Any) -> Any:
            calibration = self._calibration
            if calibration is None or calibration.done:
                before = backend.slices.peak()
                logs = function(iterator)
                self._watch_peak(before)
            else:
                calibration.before_step()
                logs = function(iterator)
                calibration.after_step(logs)
            return logs

        return train_function

    # --- reports ---

    def _new_calibration(self) -> CalibrationRun:
        assert self.limit_bytes is not None  # noqa: S101  # climbs only with a limit
        return CalibrationRun(
            size=self._made.size,
            seen=self._made.seen,
            batch=self.batch,
            ceiling=self.ceiling,
            limit_bytes=self.limit_bytes,
            steps_a_call=self.model.steps_per_execution,
            on_trial=self._on_size,
            on_peak=self._on_peak,
            figures=self._figures,
        )

    def _figures(self) -> Figures | None:
        """With XLA a plan without the map would be luck."""
        return backend.slices.figures(needed=self._is_compiled())

    def _is_compiled(self) -> bool:
        less = backend.slices.compiles_less(self.model)
        return bool(self.model.jit_compile) and less is None

    def _on_size(
        self, size: int, source: SizeSource, planned: str, **more: object
    ) -> None:
        self.report(
            RecordKind.MICROBATCH,
            batch=self.batch,
            slices=count(batch=self.batch, size=size),
            size=size,
            mode=self.strategy.mode,
            deviations=list(self.strategy.deviations),
            source=source,
            planned=planned,
            **more,
        )

    def _on_peak(self, size: int, peak_bytes: int, **known: int) -> None:
        self._reported_peak = peak_bytes
        self.report(
            RecordKind.PEAK,
            slice_size=size,
            slices=count(batch=self.batch, size=size),
            peak_bytes=peak_bytes,
            limit_bytes=self.limit_bytes,
            jit=self._is_compiled(),
            **known,
        )

    def _watch_peak(self, before: PeakReading | None) -> None:
        """``before``: the step that is over now. What was higher than its peak already
        (a validation in whole batches) is nothing that slices need."""
        reading = backend.slices.peak()
        if reading is None:
            return
        if reading.peak_bytes > self._reported_peak * PEAK_NEWS:
            self._on_peak(int(self._made.size.numpy()), reading.peak_bytes)
        if before is not None and reading.peak_bytes > before.peak_bytes:
            self._step_back(before, reading)

    def _step_back(self, before: PeakReading, after: PeakReading) -> None:
        """Take a smaller slice where the step came too near the limit."""
        if self.limit_bytes is None:
            return
        if after.peak_bytes <= TIGHT_PART * self.limit_bytes:
            return  # as nearly always: the map need not be asked
        figures, size = self._figures(), int(self._made.size.numpy())
        step = readings_of(before, after, figures)
        if self._first_back is not None and self._first_back.is_vain(size, step):
            self._give_up(self._first_back, size, step)
            return
        smaller = stepped_back(
            size, step, batch=self.batch, limit_bytes=self.limit_bytes
        )
        if smaller < size:
            first = SteppedBack(size=size, added=step.peak - step.between)
            self._first_back = self._first_back or first
            self._on_peak(size, after.peak_bytes)
            backend.slices.reset_peak()
            self._made.size.assign(smaller)
            self._on_size(
                smaller,
                SizeSource.MEASURED,
                f"measured: slices of {size} came too near the limit",
                near_limit=self._near_limit(smaller, step, unsliced=None),
            )

    def _give_up(self, first: SteppedBack, size: int, step: Readings) -> None:
        """Stay at ``size``, and say so once: smaller slices do not help."""
        if self._stays:
            return
        self._stays = True
        unsliced = first.unsliced_bytes(size, step)
        self._on_size(
            size,
            SizeSource.MEASURED,
            "measured: smaller slices do not help",
            near_limit=self._near_limit(size, step, unsliced=unsliced),
        )
        slices = count(batch=self.batch, size=size)
        needed = UNSLICED.format(_mib(unsliced), _mib(self.limit_bytes or 0))
        self.report(
            RecordKind.NOTICE, sentence=f"The batch stays in {slices} slices: {needed}"
        )

    def _near_limit(
        self, size: int, step: Readings, *, unsliced: int | None
    ) -> dict[str, Any]:
        assert self._first_back is not None  # noqa: S101  # what is told is that it was
        assert self.limit_bytes is not None  # noqa: S101  # else nothing comes near it
        return NearLimit(
            batch=self.batch,
            first_size=self._first_back.size,
            size=size,
            peak_bytes=step.peak,
            limit_bytes=self.limit_bytes,
            unsliced_bytes=unsliced,
        ).to_json()


def _mib(size: int) -> int:
    return round(size / 2**20)


class _Made:
    """A sliced train function and the variables it reads; outlives one ``fit``."""

    def __init__(self) -> None:
        self.size = backend.slices.own_variable(1)
        self.seen = backend.slices.own_variable(0)
        self.function: Callable[[Any], Any] | None = None


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return all(one is two or one == two for one, two in zip(before, now, strict=True))
