"""The check, before training, of what slices would change for a model; how to avoid it.

Nothing here goes by the names of layers or losses: a few samples of the first batch
are worked through whole and in uneven slices, and what comes out is compared. What a
layer called in training changes (statistics, seeds) is found by looking at its
variables. All state is put back afterwards.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from trainers.backends import keras_losses, slicing
from trainers.backends.slices import deviations as sentences
from trainers.backends.slices.batch_ops import (
    changing,
    cut,
    length,
    none_zero,
    state_kept,
    tensors,
    tiled,
    uneven,
    values_of,
)
from trainers.backends.slices.slice_loss import (
    LossRule,
    LossRules,
    compare,
    predict,
)
from trainers.backends.slices.slice_spans import (
    added_rules,
    agreed,
    near,
    rule_of,
    some_zero,
    spans_of,
)
from trainers.backends.slices.slice_support import SliceSupport
from trainers.process import allocation_subject

SAMPLES = 12
"""How many samples go through the model: enough for three uneven slices."""
FEWEST = 2
"""... and where memory does not hold what the model makes of them: two slices of one."""

LOSS_TOLERANCE = 1e-5
"""Relative; both sides are computed in float32 from the same predictions."""

ADDED_TOLERANCE = {"float32": 1e-4, "float64": 1e-4}
"""Relative, by compute type (else HALF_TOLERANCE): from predictions made twice."""

HALF_TOLERANCE = 2e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalenceFindings:
    """How to slice a model, and what that changes all the same."""

    rules: LossRules
    deviations: tuple[str, ...] = ()
    """Sentences; empty: exact up to float reassociation."""


def examine(
    model: Any, batch: tuple[Any, Any, Any], *, samples: int, support: SliceSupport
) -> EquivalenceFindings:
    """Try ``model`` on at most ``samples`` (2 or more) samples of ``batch``.

    ``batch`` is (x, y, sample weights), each a structure of tensors (n, …) or None.
    Builds the compiled losses, metrics and the optimizer where Keras has not yet.
    Fewer samples are tried where memory does not hold so many: a slice may be of one.
    """
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    samples = min(samples, SAMPLES)
    while (found := _tried(model, batch, samples, support)) is None:
        samples = max(FEWEST, samples // 3)
    return found


def _tried(
    model: Any, batch: tuple[Any, Any, Any], samples: int, support: SliceSupport
) -> EquivalenceFindings | None:
    """What so many samples tell; None: memory holds fewer."""
    try:
        with state_kept(model, support):
            return _examine(model, batch, samples, support)
    except Exception as error:  # whatever the script's model raises
        if samples <= FEWEST or not allocation_subject.out_of_memory(error):
            raise
    gc.collect()  # Keras' frames refer to the error, which holds them and their tensors
    return None


def _examine(
    model: Any, batch: tuple[Any, Any, Any], samples: int, support: SliceSupport
) -> EquivalenceFindings:
    x, y, weight = batch
    few = tensors(slicing.cut(x, 0, samples))
    spans = spans_of(min(samples, length(x)))
    counted = values_of(model.metrics_variables)
    seen = _seen(model, few, spans, support)
    trials = [seen]
    deviations = sentences.of_layers(
        [(type(layer).__name__, layer.name, random) for layer, random in seen.stirred]
    )
    if any(_changed(variable, counted) for variable in model.metrics_variables):
        deviations.append(sentences.CALL_UPDATES_METRICS)
    with none_zero(model) as hidden:
        if hidden and (again := _seen(model, few, spans, support)).is_finite:
            trials.append(again)
    if not seen.stirred and any(one.is_coupled(model) for one in trials):
        deviations.append(sentences.COUPLED)
    deviations += support.changed_by_steps(model)
    _build_losses(model, (few, y, weight), seen.whole)
    added_rules, odd = _added_rules(model, trials, spans)
    loss, doubt = _loss_rule(
        model, (few, y, weight), seen.whole, stirred=bool(seen.stirred)
    )
    rules = LossRules(
        loss=loss,
        added=added_rules,
        draws=all(one.drawn for one in trials),
        metrics_whole=keras_losses.own_compute_metrics(model)
        or _metrics_need_whole(model, y, weight, seen.whole),
    )
    return EquivalenceFindings(rules=rules, deviations=(*deviations, *odd, *doubt))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a model made of some samples, whole and in slices."""

    whole: Any
    added: list[Any]
    """By ``add_loss`` and regularisers."""
    parts: list[tuple[Any, list[Any]]]
    """Predictions and added losses of the slices."""
    stirred: list[tuple[Any, bool]]
    """Layers whose state has changed, and whether it is their random state."""
    drawn: bool
    """Whether the slices drew what the whole drew."""

    @property
    def is_finite(self) -> bool:
        """Whether it is made of numbers: zeros may have stood where nothing else can."""
        leaves = slicing.leaves(self.whole)
        return all(np.isfinite(_in_float32(one)).all() for one in leaves)

    def is_coupled(self, model: Any) -> bool:
        """Whether samples of a batch know of each other."""
        return _coupled(model, self.whole, [one for one, _ in self.parts])


def _seen(
    model: Any, few: Any, spans: Sequence[tuple[int, int]], support: SliceSupport
) -> _Seen:
    before = values_of(changing(model))
    with support.stirred_beside(model) as beside:
        whole = predict(model, few)
    added = keras_losses.added_losses(model)
    stirred = [*_stirred_layers(model, before), *beside]
    drawn = None
    if _only_draws(model, stirred):
        drawn = support.drawn_as_whole(model, few, spans, before)
        if drawn is not None and _coupled(model, whole, [one for one, _ in drawn]):
            drawn = None
    return _Seen(
        whole=whole,
        added=added,
        parts=drawn or [_part(model, slicing.cut(few, *span)) for span in spans],
        stirred=stirred if drawn is None else [],
        drawn=drawn is not None,
    )


def _part(model: Any, few: Any) -> tuple[Any, list[Any]]:
    return predict(model, few), keras_losses.added_losses(model)


# --- layers ---


def _only_draws(model: Any, stirred: list[tuple[Any, bool]]) -> bool:
    """Whether random numbers are all that slices might have otherwise: where layers keep
    statistics beside, nobody can tell."""
    random = bool(stirred) and all(random for _, random in stirred)
    return random and not keras_losses.own_compute_loss(model)


def _stirred_layers(model: Any, before: dict[int, Any]) -> list[tuple[Any, bool]]:
    """The layers whose state has changed, and whether it is their random state."""
    stirred = []
    for layer in keras_losses.all_layers(model):
        seeds = keras_losses.seed_states(layer)
        if any(_changed(seed, before) for seed in seeds):
            stirred.append((layer, True))
        elif any(
            _changed(one, before) for one in keras_losses.layers_own_variables(layer)
        ):
            stirred.append((layer, False))
    return stirred


def _changed(variable: Any, before: dict[int, Any]) -> bool:
    kept = before.get(id(variable))
    return kept is not None and not np.array_equal(kept, variable.numpy())


def _coupled(model: Any, whole: Any, parts: list[Any]) -> bool:
    tolerance = ADDED_TOLERANCE.get(model.compute_dtype, HALF_TOLERANCE)
    together = zip(*(slicing.leaves(part) for part in parts), strict=True)
    for one, pieces in zip(slicing.leaves(whole), together, strict=True):
        left = _in_float32(one)
        right = np.concatenate([_in_float32(piece) for piece in pieces])
        if left.shape != right.shape or not near(left, right, tolerance):
            return True
    return False


def _in_float32(tensor: Any) -> np.ndarray:
    array: np.ndarray = keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))
    return array


# --- losses ---


def _added_rules(
    model: Any, trials: Sequence[_Seen], spans: Sequence[tuple[int, int]]
) -> tuple[tuple[LossRule, ...], list[str]]:
    if keras_losses.own_compute_loss(model):
        return (), []
    tolerance = ADDED_TOLERANCE.get(model.compute_dtype, HALF_TOLERANCE)

    def rule(at: int) -> LossRule | None:
        return agreed(
            _rule_of(one.added[at], [two[at] for _, two in one.parts], spans, tolerance)
            for one in trials
        )

    known = [rule(at) for at in range(len(trials[0].added))]
    return added_rules(known, by_weights=keras_losses.added_by_weights(model))


def _loss_rule(
    model: Any, batch: tuple[Any, Any, Any], predictions: Any, *, stirred: bool
) -> tuple[LossRule, list[str]]:
    """How the loss of the batch follows from its slices; what stays inexact."""
    x, y, weight = batch
    if keras_losses.own_compute_loss(model):
        return _own_loss_rule(model, x, y, weight, stirred=stirred)
    y, predictions, weight = tiled(y, predictions, weight)
    samples = length(predictions)
    loss = compare(model, x, y, predictions, weight)[0]
    if loss is None:
        return LossRule.MEAN, []
    if _data_dependent(model, predictions):
        return LossRule.WHOLE, []
    spans = spans_of(samples)
    rules = []
    for labels in (y, some_zero(y)):
        loss, *parts = [
            compare(
                model,
                x,
                slicing.cut(labels, *span),
                cut(predictions, *span),
                slicing.cut(weight, *span),
            )[0]
            for span in [(0, samples), *spans]
        ]
        rules.append(_rule_of(loss, parts, spans, LOSS_TOLERANCE))
    return agreed(rules) or LossRule.WHOLE, []


def _build_losses(model: Any, batch: tuple[Any, Any, Any], predictions: Any) -> None:
    """Let Keras make the metrics of the outputs' losses, as the first step would."""
    x, samples = batch[0], length(predictions)
    y, weight = (tensors(slicing.cut(one, 0, samples)) for one in batch[1:])
    keras_losses.total_loss(model, x=x, y=y, y_pred=predictions, sample_weight=weight)


def _own_loss_rule(
    model: Any, x: Any, y: Any, weight: Any, *, stirred: bool
) -> tuple[LossRule, list[str]]:
    samples = length(x)
    spans = spans_of(samples)
    y, weight = (tensors(slicing.cut(one, 0, samples)) for one in (y, weight))
    weight = uneven(weight)

    def loss_of(labels: Any, span: tuple[int, int]) -> Any:
        inputs, targets, weights = (
            slicing.cut(one, *span) for one in (x, labels, weight)
        )
        return compare(model, inputs, targets, predict(model, inputs), weights)[0]

    odd = []
    counts, keeps = _changed_by_loss(model, x, y, weight)
    if counts:
        odd.append(sentences.LOSS_UPDATES_METRICS)
    added = bool(model.losses)
    tolerance = ADDED_TOLERANCE.get(model.compute_dtype, HALF_TOLERANCE)
    rules: list[LossRule | None] = [LossRule.WHOLE] if keeps else []
    for labels in (y, some_zero(y)):
        whole, *parts = [loss_of(labels, span) for span in [(0, samples), *spans]]
        rules.append(_rule_of(whole, parts, spans, tolerance))
    rule = agreed(rules) or LossRule.WHOLE
    if rule is LossRule.WHOLE and (added or stirred):
        odd.append(sentences.LOSS_AVERAGED)
        rule = LossRule.MEAN
    return rule, odd


def _changed_by_loss(model: Any, x: Any, y: Any, weight: Any) -> tuple[bool, bool]:
    """Whether computing the loss changes metrics, and state of the model besides: a
    moving average, a generator. That is done once a batch."""
    predictions = predict(model, x)
    counted, before = values_of(model.metrics_variables), values_of(changing(model))
    compare(model, x, y, predictions, weight)
    return (
        any(_changed(one, counted) for one in model.metrics_variables),
        any(_changed(one, before) for one in changing(model)),
    )


def _data_dependent(model: Any, predictions: Any) -> bool:
    """Losses that divide by a count which these samples may not show."""
    masked = any(
        keras_losses.mask_of(leaf) is not None for leaf in slicing.leaves(predictions)
    )
    return masked or any(
        getattr(loss, "ignore_class", None) is not None
        for loss in keras_losses.flat_losses(model)
    )


def _rule_of(
    whole: Any, parts: list[Any], spans: Sequence[tuple[int, int]], tolerance: float
) -> LossRule | None:
    """As ``rule_of``, of tensors."""
    expected, *values = (keras.ops.convert_to_numpy(one) for one in (whole, *parts))
    return rule_of(expected, values, spans, tolerance)


# --- metrics ---


def _metrics_need_whole(model: Any, y: Any, weight: Any, predictions: Any) -> bool:
    """Whether metrics of slices do not add up to those of the batch."""
    metrics = keras_losses.compiled_metrics(model)
    if metrics is None:
        return False
    y, predictions, weight = tiled(y, predictions, weight)
    metrics.update_state(y, predictions, sample_weight=weight)
    metrics.reset_state()
    metrics.update_state(y, predictions, sample_weight=weight)
    whole = [one.numpy() for one in metrics.variables]
    metrics.reset_state()
    for span in spans_of(length(predictions)):
        metrics.update_state(
            slicing.cut(y, *span),
            cut(predictions, *span),
            sample_weight=slicing.cut(weight, *span),
        )
    parts = [one.numpy() for one in metrics.variables]
    metrics.reset_state()
    return not all(
        near(one, two, LOSS_TOLERANCE) for one, two in zip(whole, parts, strict=True)
    )
