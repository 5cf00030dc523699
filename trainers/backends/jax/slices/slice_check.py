"""The check, before training, of what slices would change for a model on JAX.

As the one on TensorFlow, nothing here goes by the names of layers or losses: a few samples
of the first batch are worked through whole and in uneven slices, and what comes out is
compared. All of it is stateless: no variable is given a value.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from trainers.backends import keras_losses, slicing
from trainers.backends.jax.slices import stateless_parts as parts
from trainers.backends.slices import deviations as sentences
from trainers.backends.slices.slice_loss import LossRule, LossRules
from trainers.backends.slices.slice_spans import (
    added_rules,
    agreed,
    near,
    rule_of,
    some_zero,
    spans_of,
    unlike_zero,
)
from trainers.process.script import python_random

SAMPLES = 12
"""How many samples go through the model: enough for three uneven slices."""
LOSS_TOLERANCE = 1e-5
"""Relative; both sides are computed in float32 from the same predictions."""
ADDED_TOLERANCE = {"float32": 1e-4, "float64": 1e-4}
"""Relative, by compute type (else HALF_TOLERANCE): from predictions made twice."""
HALF_TOLERANCE = 2e-2
REPEATED_BYTES = 16 * 1024 * 1024
"""Predictions are repeated to meet the labels of the whole batch, up to this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFindings:
    """How to slice a model, and what that changes all the same."""

    rules: LossRules
    deviations: tuple[str, ...]
    """Sentences; empty: exact up to float reassociation."""


def examine(model: Any, batch: tuple[Any, Any, Any], *, samples: int) -> SliceFindings:
    """Try ``model``, which is built, on at most ``samples`` (2 or more) samples of
    ``batch``: (x, y, sample weights), each a structure of arrays (n, …) or None.

    Products are not rounded to TensorFloat-32 meanwhile, as which are may depend on the
    size of a batch.
    """
    with (
        jax.default_matmul_precision("highest"),
        python_random.untouched(),
        keras_losses.given_losses_kept(model),
    ):
        return _Check(model, batch, min(samples, SAMPLES)).findings()


class _Check:
    """One model on some samples."""

    def __init__(self, model: Any, batch: tuple[Any, Any, Any], samples: int) -> None:
        self._model, self._batch = model, batch
        self._trainable = values(model.trainable_variables)
        self._fixed = values(model.non_trainable_variables)
        self._metrics = values(model.metrics_variables)
        self._few = slicing.cut(batch[0], 0, samples)
        self._spans = spans_of(min(samples, parts.samples_in(batch[0])))
        self._eager = model.run_eagerly or not model.jit_compile
        self._forward = self._called if self._eager else jax.jit(self._called)
        half = HALF_TOLERANCE
        self._tolerance = ADDED_TOLERANCE.get(model.compute_dtype, half)
        self._structure: Any = None

    def findings(self) -> SliceFindings:
        """All of it."""
        drawn = python_random.state()
        trials = [self._trial()]
        whole, _ = trials[0]
        stirred = self._stirred(whole.fixed)
        if self._eager and not python_random.same(drawn, python_random.state()):
            stirred.append((type(self._model).__name__, self._model.name, True))
        told = sentences.of_layers(stirred)
        with self._none_zero() as hidden:
            # Zeros may have stood where nothing else can.
            if hidden and _are_finite((again := self._trial())[0].leaves):
                trials.append(again)
        if not told and any(itertools.starmap(self._coupled, trials)):
            told.append(sentences.COUPLED)
        if keras_losses.computes_in_half(self._model):
            told.append(sentences.HALF)
        added, odd = self._added_rules(trials)
        loss, doubt = self._loss_rule(whole, stirred=bool(stirred))
        rules = LossRules(
            loss=loss,
            added=added,
            metrics_whole=keras_losses.own_compute_metrics(self._model)
            or self._metrics_need_whole(whole),
        )
        return SliceFindings(rules=rules, deviations=(*told, *odd, *doubt))

    # --- the model ---

    def _trial(self) -> "_Trial":
        """The samples, whole and in slices."""
        whole = self._of(self._few)
        return whole, [self._of(slicing.cut(self._few, *span)) for span in self._spans]

    @contextlib.contextmanager
    def _none_zero(self) -> Iterator[bool]:
        """Within, no weight or state that is a zero, or all zeros, is such; whether there
        is any. A gate that opens in training hides what comes after it until then."""
        kept = self._trainable, self._fixed
        self._trainable, self._fixed = (
            [_unlike_zero(one) for one in group] for group in kept
        )
        now = [*self._trainable, *self._fixed]
        before = [*kept[0], *kept[1]]
        try:
            yield any(one is not two for one, two in zip(now, before, strict=True))
        finally:
            self._trainable, self._fixed = kept

    def _called(self, trainable: Any, fixed: Any, x: Any) -> Any:
        call = parts.called(self._model, trainable, fixed, x)
        leaves = keras.tree.flatten(call.predictions)
        self._structure = keras.tree.map_structure(lambda _: 0, call.predictions)
        masks = [keras_losses.mask_of(leaf) for leaf in leaves]
        with keras_losses.losses_of_call(self._model, call.losses):
            added = keras_losses.added_losses(self._model) if call.losses else []
        return leaves, masks, call.fixed, call.losses, added

    def _of(self, x: Any) -> "_Found":
        found = self._forward(self._trainable, self._fixed, x)
        leaves, masks, fixed, losses, added = found
        return _Found(
            structure=self._structure,
            leaves=leaves,
            masks=masks,
            fixed=fixed,
            losses=losses,
            added=[float(one) for one in added],
        )

    def _stirred(self, after: list[Any]) -> list[tuple[str, str, bool]]:
        """The layers whose state has changed, and whether it is their random state."""
        variables = self._model.non_trainable_variables
        changed = {
            id(variable)
            for variable, before, now in zip(variables, self._fixed, after, strict=True)
            if not np.array_equal(np.asarray(before), np.asarray(now))
        }
        stirred = []
        for layer in keras_losses.all_layers(self._model):
            seeds = keras_losses.seed_states(layer)
            own = keras_losses.layers_own_variables(layer)
            if any(id(one) in changed for one in (*seeds, *own)):
                random = any(id(one) in changed for one in seeds)
                stirred.append((type(layer).__name__, layer.name, random))
        return stirred

    def _coupled(self, whole: "_Found", pieces: "Sequence[_Found]") -> bool:
        together = zip(*(one.leaves for one in pieces), strict=True)
        for one, several in zip(whole.leaves, together, strict=True):
            left = np.asarray(one, "float64")
            right = np.concatenate([np.asarray(leaf, "float64") for leaf in several])
            if left.shape != right.shape or not near(left, right, self._tolerance):
                return True
        return False

    # --- losses ---

    def _added_rules(
        self, trials: "Sequence[_Trial]"
    ) -> tuple[tuple[LossRule, ...], list[str]]:
        if keras_losses.own_compute_loss(self._model):
            return (), []

        def rule(at: int) -> LossRule | None:
            return agreed(
                rule_of(
                    whole.added[at],
                    [one.added[at] for one in pieces],
                    self._spans,
                    self._tolerance,
                )
                for whole, pieces in trials
            )

        known = [rule(at) for at in range(len(trials[0][0].added))]
        by_weights = keras_losses.added_by_weights(self._model)
        return added_rules(known, by_weights=by_weights)

    def _loss_rule(
        self, whole: "_Found", *, stirred: bool
    ) -> tuple[LossRule, list[str]]:
        """How the loss of the batch follows from its slices; what stays inexact."""
        if keras_losses.own_compute_loss(self._model):
            return self._own_loss_rule(whole, stirred=stirred)
        y, weight = self._targets(whole)
        repeated = whole.repeated(self._repeats(whole))
        total = self._loss_of(repeated, None, y, weight)
        if total is None:
            return LossRule.MEAN, []
        if self._data_dependent(whole):
            return LossRule.WHOLE, []
        spans = spans_of(parts.samples_in(repeated.leaves))
        rules = []
        for labels in (y, some_zero(y)):
            total, *several = [
                self._loss_of(
                    repeated.cut(*span),
                    None,
                    slicing.cut(labels, *span),
                    slicing.cut(weight, *span),
                )
                for span in [(0, spans[-1][1]), *spans]
            ]
            rules.append(rule_of(total, several, spans, LOSS_TOLERANCE))
        return agreed(rules) or LossRule.WHOLE, []

    def _own_loss_rule(
        self, whole: "_Found", *, stirred: bool
    ) -> tuple[LossRule, list[str]]:
        samples = parts.samples_in(whole.leaves)
        y, weight = (slicing.cut(one, 0, samples) for one in self._batch[1:])
        weight = uneven(weight)
        found: list[parts.LossResult] = []

        def loss_of(labels: Any, span: tuple[int, int]) -> float:
            x, targets, weights = (
                slicing.cut(one, *span) for one in (self._few, labels, weight)
            )
            loss = self._loss_of(self._of(x), x, targets, weights, found)
            return 0.0 if loss is None else loss

        odd, rules = [], []
        for labels in (y, some_zero(y)):
            total, *several = [
                loss_of(labels, span) for span in [(0, samples), *self._spans]
            ]
            rules.append(rule_of(total, several, self._spans, self._tolerance))
        if _differ(self._metrics, found[0].metrics):
            odd.append(sentences.LOSS_UPDATES_METRICS)
        if _differ(self._fixed, found[0].fixed):  # a moving average: once a batch
            rules.append(LossRule.WHOLE)
        rule = agreed(rules) or LossRule.WHOLE
        if rule is LossRule.WHOLE and (whole.losses or stirred):
            odd.append(sentences.LOSS_AVERAGED)
            rule = LossRule.MEAN
        return rule, odd

    def _loss_of(
        self,
        found: "_Found",
        x: Any,
        y: Any,
        weight: Any,
        told: list[parts.LossResult] | None = None,
    ) -> float | None:
        result = parts.compared(
            self._model,
            (x, y, weight),
            parts.CallResult(
                predictions=found.predictions(masked=True),
                fixed=self._fixed,
                losses=found.losses,
            ),
            trainable=self._trainable,
            metrics=self._metrics,
        )
        if told is not None:
            told.append(result)
        return None if result.total is None else float(result.total)

    def _targets(self, whole: "_Found") -> tuple[Any, Any]:
        samples = self._repeats(whole)
        y, weight = (slicing.cut(one, 0, samples) for one in self._batch[1:])
        return y, uneven(weight)

    def _repeats(self, whole: "_Found") -> int:
        """How many samples meet the labels of (nearly) the whole batch."""
        size = sum(
            leaf.dtype.itemsize * int(np.prod(leaf.shape[1:])) for leaf in whole.leaves
        )
        known = parts.samples_in(self._batch[0])
        few = parts.samples_in(whole.leaves)
        return min(known, max(few, REPEATED_BYTES // max(1, size)))

    def _data_dependent(self, whole: "_Found") -> bool:
        """Losses that divide by a count which these samples may not show."""
        return any(mask is not None for mask in whole.masks) or any(
            getattr(loss, "ignore_class", None) is not None
            for loss in keras_losses.flat_losses(self._model)
        )

    # --- metrics ---

    def _metrics_need_whole(self, whole: "_Found") -> bool:
        """Whether metrics of slices do not add up to those of the batch."""
        if keras_losses.compiled_metrics(self._model) is None:
            return False
        y, weight = self._targets(whole)
        repeated = whole.repeated(self._repeats(whole))
        once = self._metered(self._metrics, repeated, y, weight)
        several = self._metrics
        for span in spans_of(parts.samples_in(repeated.leaves)):
            several = self._metered(
                several,
                repeated.cut(*span),
                slicing.cut(y, *span),
                slicing.cut(weight, *span),
            )
        return not all(
            near(np.asarray(one, "float64"), np.asarray(two, "float64"), LOSS_TOLERANCE)
            for one, two in zip(once, several, strict=True)
        )

    def _metered(self, metrics: Any, found: "_Found", y: Any, weight: Any) -> Any:
        predictions = found.predictions(masked=False)
        return parts.metered(self._model, metrics, y, predictions, weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a call of the model gave for some samples."""

    structure: Any
    leaves: list[Any]
    masks: list[Any]
    fixed: list[Any]
    losses: list[Any]
    added: list[float]

    def predictions(self, *, masked: bool) -> Any:
        """In the structure of the model's; Keras' metrics see no masks in training."""
        leaves = [leaf + 0 if masked else leaf for leaf in self.leaves]
        for leaf, mask in zip(leaves, self.masks if masked else (), strict=False):
            if mask is not None:
                keras_losses.set_mask(leaf, mask)
        return keras.tree.pack_sequence_as(self.structure, leaves)

    def repeated(self, samples: int) -> "_Found":
        """Its samples again and again, up to so many."""
        return self._with(lambda leaf: leaf[jnp.arange(samples) % len(leaf)])

    def cut(self, start: int, stop: int) -> "_Found":
        """Some of its samples."""
        return self._with(lambda leaf: leaf[start:stop])

    def _with(self, function: Any) -> "_Found":
        return _Found(
            structure=self.structure,
            leaves=[function(leaf) for leaf in self.leaves],
            masks=[None if one is None else function(one) for one in self.masks],
            fixed=self.fixed,
            losses=self.losses,
            added=self.added,
        )


_Trial = tuple[_Found, list[_Found]]
"""Of a whole, and of its slices."""


def _are_finite(leaves: Sequence[Any]) -> bool:
    return all(np.isfinite(np.asarray(one, "float32")).all() for one in leaves)


def _differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return any(
        not np.array_equal(np.asarray(before), np.asarray(after))
        for before, after in zip(one, other, strict=True)
    )


def _unlike_zero(value: Any) -> Any:
    if not jnp.issubdtype(value.dtype, jnp.floating) or bool(jnp.any(value != 0)):
        return value
    return jnp.asarray(unlike_zero(value.shape), value.dtype)


def values(variables: Sequence[Any]) -> list[Any]:
    """Their present values."""
    return [variable.value for variable in variables]


def uneven(weight: Any) -> Any:
    """Weights that differ from sample to sample, so that dividing by them shows."""

    def one(leaf: Any) -> Any:
        each = 1 + (jnp.arange(len(leaf)) % 7) / 7
        return leaf * each.reshape(-1, *[1] * (leaf.ndim - 1)).astype("float32")

    return slicing.map_leaves(one, weight)
