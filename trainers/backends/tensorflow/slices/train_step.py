"""A train step that works through k slices in sequence and updates once.

The loop is a ``tf.while_loop`` outside XLA; where the model is jit-compiled, only the
function of one slice is. Sliced inside XLA the memory stays (measured: 315 MiB of 320
at k=4), and an unrolled Python loop lets TensorFlow keep all slices alive at once.

For a batch of n samples in slices of n_i, a loss that is a mean over samples is
``sum(n_i / n * loss_i)``, one that is a sum is ``sum(loss_i)``: each term of a slice's
loss is weighted so before it is scaled and differentiated, never the gradients
afterwards, so that a loss scaler (float16) sees the gradients of the whole batch.

Any other loss takes two passes: predictions of all slices, the loss of the whole batch
and its gradient with respect to the predictions, then each slice's gradients from that.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from trainers.backends import keras_losses, slicing
from trainers.backends.slices import batch_ops
from trainers.backends.slices.slice_loss import (
    LossRule,
    LossRules,
    compare,
    predict,
)
from trainers.backends.tensorflow.functions import tracing
from trainers.backends.tensorflow.slices import (
    float32_accumulation,
    slice_draws,
)
from trainers.backends.tensorflow.slices.slice_state import (
    Cuts,
    StackedOutputs,
    Sums,
    differentiable,
)

FLOAT16_OVERFLOW = 65520.0
"""Smallest magnitude that rounds to infinity in IEEE 754 binary16."""


@dataclass(frozen=True, slots=True)
class _Losses:
    """Scalars of one slice, or of a whole batch: float32 tensors."""

    total: Any
    outputs: list[Any]
    """The loss of each output, for the logs; empty for a single output."""


def _share(rule: LossRule, part: Any) -> Any:
    return part if rule is LossRule.MEAN else tf.ones_like(part)


def _sum(one: Any, other: Any) -> Any:
    """Of two gradients, where there are two; rows of an embedding as a whole table."""
    if one is None or other is None:
        return other if one is None else one
    return tf.convert_to_tensor(one) + tf.convert_to_tensor(other)


class SlicedStep:
    """Takes the place of ``model.train_step``. One instance serves one ``fit``."""

    def __init__(
        self,
        model: Any,
        *,
        size: tf.Variable,
        seen: tf.Variable,
        rules: LossRules,
        wide_products: bool = True,
    ) -> None:
        """``size``: samples a slice, may change between steps; ``seen``: is set to
        the size of the largest batch since somebody set it to 0. Both int32 scalars.
        ``wide_products``: whether kernels, too, may be summed in float32.
        """
        self._model = model
        self._seen = seen
        self._size = size
        self._rules = rules
        self._own_loss = keras_losses.own_compute_loss(model)
        self._seeds = slice_draws.seeds(model) if rules.draws else []
        self._narrow = keras_losses.narrow_variables(model)
        self._products = wide_products and float32_accumulation.products_pay_here()
        self._terms: list[tuple[int, float32_accumulation.Term]] = []
        self._beside: list[Any] = []
        self._structure: Any = None
        self._slice_gradients = tracing.compiled(model, self._gradients_of_slice)
        self._slice_predictions = tracing.compiled(model, self._predictions_of_slice)
        self._slice_backward = tracing.compiled(model, self._backward_of_slice)

    def __call__(self, data: Any) -> Any:
        """One update from the batch ``data``; the logs, as Keras' own step."""
        batch = keras.utils.unpack_x_y_sample_weight(data)
        cuts = Cuts(batch, self._size)
        self._seen.assign(tf.maximum(self._seen, cuts.total))
        self._first_seeds = [state.value + 0 for state in self._seeds]
        self._beside = [None] * len(self._model.trainable_weights)
        step = self._two_passes if self._rules.two_pass else self._one_pass
        gradients, losses, predictions = step(cuts)
        self._log_losses(losses, batch[0], cuts.total)
        self._model.optimizer.apply_gradients(
            zip(self._finished(gradients), self._model.trainable_weights, strict=True)
        )
        return self._logs(batch, predictions)

    # --- the two ways ---

    def _one_pass(self, cuts: Cuts) -> tuple[Any, _Losses, Any]:
        def work(index: Any) -> Any:
            return self._slice_gradients(*self._slice(cuts, index))

        first = work(0)
        sums = Sums(first["gradients"], cuts.count)
        kept = StackedOutputs(first["predictions"], cuts.count)

        def body(index: Any, gradients: Any, losses: Any, arrays: Any) -> Any:
            result = work(index)
            return (
                index + 1,
                sums.add(gradients, index, result["gradients"]),
                [a + b for a, b in zip(losses, result["losses"], strict=True)],
                kept.write(arrays, index, result["predictions"]),
            )

        gradients, losses, arrays = self._loop(
            body, cuts.count, sums.first(), first["losses"], kept.first()
        )
        predictions = kept.whole(arrays, self._structure)
        return sums.whole(gradients), _Losses(losses[0], losses[1:]), predictions

    def _two_passes(self, cuts: Cuts) -> tuple[Any, _Losses, Any]:
        changing = batch_ops.changing(self._model)
        changing += self._model.metrics_variables
        before = [variable.value + 0 for variable in changing]
        predictions, added = self._forward(cuts)

        # The second pass must see what the first one saw: the same random masks. What the
        # loss changes stays: it is computed once.
        for variable, value in zip(changing, before, strict=True):
            variable.assign(value)
        losses, slopes = self._loss_of_whole(cuts.batch, predictions, added)
        return self._backward(cuts, slopes), losses, predictions

    def _forward(self, cuts: Cuts) -> tuple[Any, Any]:
        """Predictions of the whole batch, and its added losses."""
        first = self._slice_predictions(*self._slice(cuts, 0))
        kept = StackedOutputs(first["predictions"], cuts.count)

        def body(index: Any, added: Any, arrays: Any) -> Any:
            result = self._slice_predictions(*self._slice(cuts, index))
            arrays = kept.write(arrays, index, result["predictions"])
            return index + 1, added + result["added"], arrays

        added, arrays = self._loop(body, cuts.count, first["added"], kept.first())
        return kept.whole(arrays, self._structure), added

    def _backward(self, cuts: Cuts, slopes: list[Any]) -> list[Any]:
        """The gradients of the batch, from the slopes of its loss by prediction."""

        def work(index: Any) -> Any:
            start, stop = cuts.bounds(index)
            mine = [None if slope is None else slope[start:stop] for slope in slopes]
            return self._slice_backward(*self._slice(cuts, index), mine)

        first = work(0)
        sums = Sums(first, cuts.count)

        def body(index: Any, gradients: Any) -> Any:
            return index + 1, sums.add(gradients, index, work(index))

        (gradients,) = self._loop(body, cuts.count, sums.first())
        return sums.whole(gradients)

    def _slice(self, cuts: Cuts, index: Any) -> tuple[Any, ...]:
        """A slice, which draws with the seeds that a whole batch would draw with."""
        slice_draws.rewind(self._seeds, self._first_seeds)
        return cuts.slice(index)

    def _loop(self, body: Callable[..., Any], count: Any, *state: Any) -> Any:
        """Run ``body(index, *state)`` for the slices after the first."""
        _, *state = tf.while_loop(
            lambda index, *_: index < count,
            body,
            (tf.constant(1), *state),
            parallel_iterations=1,
        )
        return state

    # --- one slice: these three are compiled where the model is ---

    def _drawing(self, x: Any, start: Any) -> contextlib.AbstractContextManager[None]:
        if not self._rules.draws:
            return contextlib.nullcontext()
        return slice_draws.of_samples(start, tf.shape(slicing.leaves(x)[0])[0])

    def _gradients_of_slice(self, x: Any, y: Any, weight: Any, place: Any) -> Any:
        part, start = place
        # Its gradients, too: where activations are made again, so are the draws.
        with self._drawing(x, start):
            return self._gradients(x, y, weight, part)

    def _gradients(self, x: Any, y: Any, weight: Any, part: Any) -> Any:
        with tf.GradientTape() as tape:
            predictions = predict(self._model, x)
            losses = self._losses(x, y, predictions, weight, part)
            scaled = self._model.optimizer.scale_loss(losses.total)
        gradients = tape.gradient(scaled, self._model.trainable_weights)
        if not self._rules.metrics_whole:
            self._update_metrics(y, predictions, weight)
        return {
            "gradients": self._only_known(gradients),
            "losses": [losses.total, *losses.outputs],
            "predictions": self._flat(predictions)
            if self._rules.metrics_whole
            else None,
        }

    def _predictions_of_slice(self, x: Any, y: Any, weight: Any, place: Any) -> Any:
        del y, weight
        part, start = place
        with self._drawing(x, start):
            predictions = predict(self._model, x)
        return {"predictions": self._flat(predictions), "added": self._added_loss(part)}

    def _backward_of_slice(
        self, x: Any, y: Any, weight: Any, place: Any, slopes: list[Any]
    ) -> Any:
        del y, weight
        part, start = place
        with self._drawing(x, start):
            return self._backward_gradients(x, part, slopes)

    def _backward_gradients(self, x: Any, part: Any, slopes: list[Any]) -> Any:
        with tf.GradientTape() as tape:
            leaves = differentiable(self._flat(predict(self._model, x)))
            added = self._model.optimizer.scale_loss(self._added_loss(part))
        pairs = [
            (leaf, slope)
            for leaf, slope in zip(leaves, slopes, strict=True)
            if slope is not None
        ]
        gradients = tape.gradient(
            [*(leaf for leaf, _ in pairs), added],
            self._model.trainable_weights,
            output_gradients=[*(slope for _, slope in pairs), tf.ones_like(added)],
        )
        return self._only_known(gradients)

    # --- losses ---

    def _losses(self, x: Any, y: Any, predictions: Any, weight: Any, part: Any) -> Any:
        loss, outputs = compare(self._model, x, y, predictions, weight)
        share = _share(self._rules.loss, part)
        added = self._added_loss(part)
        total = added if loss is None else loss * tf.cast(share, loss.dtype) + added
        return _Losses(
            total, [value * tf.cast(share, value.dtype) for value in outputs]
        )

    def _added_loss(self, part: Any) -> Any:
        if self._own_loss:
            return tf.zeros([])
        added = keras_losses.added_losses(self._model)
        terms = [
            loss * tf.cast(_share(rule, part), loss.dtype)
            for loss, rule in zip(added, self._rules.added, strict=True)
        ]
        return tf.add_n(terms) if terms else tf.zeros([])

    def _loss_of_whole(self, batch: Any, predictions: Any, added: Any) -> Any:
        """The losses of the batch, and the slope of the scaled one by prediction.

        A loss may use weights itself (a temperature, a layer that ``compute_loss`` calls):
        noted are the gradients that do not come by way of predictions.
        """
        x, y, weight = batch
        leaves = differentiable(self._flat(predictions))
        with tf.GradientTape() as tape:
            tape.watch(leaves)
            loss, outputs = compare(self._model, x, y, predictions, weight)
            scaled = self._model.optimizer.scale_loss(loss)
        weights = self._model.trainable_weights
        slopes, self._beside = tape.gradient(scaled, [leaves, weights])
        return _Losses(loss + tf.cast(added, loss.dtype), outputs), slopes

    # --- what is noted while the functions of a slice are traced ---

    def _flat(self, predictions: Any) -> dict[str, Any]:
        leaves = keras.tree.flatten(predictions)
        self._structure = keras.tree.map_structure(lambda _: 0, predictions)
        return {
            "leaves": leaves,
            "logits": [keras_losses.logits_of(leaf) for leaf in leaves],
            "masks": [keras_losses.mask_of(leaf) for leaf in leaves],
        }

    def _only_known(self, gradients: list[Any]) -> list[Any]:
        """What is to be added up over slices; noted is whose gradient it makes up."""
        self._terms = [
            (at, term)
            for at, gradient in enumerate(gradients)
            if gradient is not None
            for term in float32_accumulation.terms(gradient, products=self._products)
        ]
        return [term.tensor for _, term in self._terms]

    # --- gradients ---

    def _finished(self, sums: list[Any]) -> list[Any]:
        """One a variable, as the optimizer expects them; None where there is none."""
        weights = self._model.trainable_weights
        finished: list[Any] = [None] * len(weights)
        for (at, term), total in zip(self._terms, sums, strict=True):
            mine = term.finished(self._overflown(total, weights[at]))
            finished[at] = mine if finished[at] is None else finished[at] + mine
        finished = [_sum(*pair) for pair in zip(finished, self._beside, strict=True)]
        return [
            None if one is None else tf.cast(one, weight.dtype)
            for one, weight in zip(finished, weights, strict=True)
        ]

    def _overflown(self, total: Any, variable: Any) -> Any:
        # In one piece this gradient would have been summed in float16: where that
        # overflows, the loss scaler must see it, or its clock would differ.
        if id(variable) in self._narrow and tf.is_tensor(total):
            over = tf.abs(total) >= FLOAT16_OVERFLOW
            total = tf.where(over, total * float("inf"), total)
        return total

    # --- metrics and logs ---

    def _log_losses(self, losses: _Losses, x: Any, total: Any) -> None:
        keras_losses.loss_tracker(self._model).update_state(
            keras_losses.of_one_replica(losses.total), sample_weight=total
        )
        metrics = keras_losses.output_loss_metrics(self._model)
        # Keras weighs these by the batch size only where the shape states it.
        weight = slicing.leaves(x)[0].shape[0]
        for metric, value in zip(metrics, losses.outputs, strict=False):
            metric.update_state(value, sample_weight=weight)

    def _update_metrics(self, y: Any, predictions: Any, weight: Any) -> None:
        compiled = keras_losses.compiled_metrics(self._model)
        if compiled is not None:
            compiled.update_state(y, predictions, sample_weight=weight)

    def _logs(self, batch: Any, predictions: Any) -> Any:
        if not self._rules.keep_predictions:
            return self._model.get_metrics_result()
        x, y, weight = batch
        return self._model.compute_metrics(x, y, predictions, sample_weight=weight)
