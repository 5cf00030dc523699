"""A train step on JAX that works through k slices in sequence and updates once.

The loop is a ``jax.lax.scan`` around the gradients of a slice, inside the one function
that Keras compiles: what the backward pass of a slice needs is given back before the next.
A rest that is smaller than a slice follows behind the loop.

For a batch of n samples in slices of n_i, a loss that is a mean over samples is
``sum(n_i / n * loss_i)``, one that is a sum is ``sum(loss_i)``: each term of a slice's
loss is weighted so before it is scaled and differentiated, never the gradients
afterwards, so that a loss scaler (float16) sees the gradients of the whole batch.

Any other loss takes two passes: predictions of all slices, the loss of the whole batch
and its gradient with respect to the predictions, then each slice's gradients from that.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras

from trainers.backends import keras_losses, slicing
from trainers.backends.jax.slices import stateless_parts as parts
from trainers.backends.slices.slice_loss import LossRules

FLOAT16_OVERFLOW = 65520.0
"""Smallest magnitude that rounds to infinity in IEEE 754 binary16."""

Batch = tuple[Any, Any, Any]
Work = Callable[[Any, Batch, float, Any], tuple[Any, Any]]
"""Of the state, a slice, its share of the batch and its first sample: the state after it,
and what is kept of it."""


class JaxSlicedStep:
    """Its ``train_step`` takes the place of the model's. One instance serves one size."""

    def __init__(self, model: Any, *, size: int, rules: LossRules) -> None:
        """``size``: samples a slice."""
        self._model = model
        self._size = size
        self._rules = rules
        self._structure: Any = None

    def train_step(self, state: Any, data: Any) -> Any:
        """One update from the batch ``data``; logs and state, as Keras' own step."""
        trainable, fixed, optimizer, metrics = state
        batch: Batch = keras.utils.unpack_x_y_sample_weight(data)
        step = self._two_passes if self._rules.two_pass else self._one_pass
        gradients, losses, fixed, metrics, predictions = step(state, batch)
        trainable, optimizer = self._model.optimizer.stateless_apply(
            optimizer, self._finished(gradients, trainable), trainable
        )
        logs, metrics = parts.logged(self._model, metrics, losses, batch, predictions)
        return logs, (trainable, fixed, optimizer, metrics)

    # --- the two ways ---

    def _one_pass(self, state: Any, batch: Batch) -> Any:
        trainable, fixed, optimizer, metrics = state

        def work(carried: Any, part_of: Batch, part: float, _start: Any) -> Any:
            sums, fixed, metrics = carried
            gradients, found = jax.grad(self._weighted, has_aux=True)(
                trainable, (fixed, optimizer, metrics), part_of, part
            )
            metrics = found["metrics"]
            if not self._rules.metrics_whole:
                predictions = self._whole(found["predictions"], masked=False)
                _, y, weight = part_of
                metrics = parts.metered(self._model, metrics, y, predictions, weight)
            kept = {"losses": found["losses"]}
            if self._rules.keep_predictions:
                kept["predictions"] = found["predictions"]
            return (_added(sums, gradients), found["fixed"], metrics), kept

        first = (_zeros(trainable), list(fixed), list(metrics))
        (sums, fixed, metrics), kept = self._loop(work, first, batch)
        total, *outputs = [jnp.sum(one) for one in kept["losses"]]
        predictions = None
        if self._rules.keep_predictions:
            predictions = self._whole(kept["predictions"], masked=False)
        return sums, (total, outputs), fixed, metrics, predictions

    def _two_passes(self, state: Any, batch: Batch) -> Any:
        trainable, fixed, optimizer, metrics = state
        model = self._model

        def forward(carried: Any, part_of: Batch, part: float, _start: Any) -> Any:
            call = parts.called(model, trainable, carried, part_of[0])
            added = parts.added_loss(model, call.losses, self._rules, part)
            kept = {"predictions": self._flat(call.predictions), "losses": [added]}
            return call.fixed, kept

        after, kept = self._loop(forward, list(fixed), batch)
        flat, added = kept["predictions"], jnp.sum(kept["losses"][0])

        def loss_of(numbers: list[Any], trainable: list[Any]) -> Any:
            predictions = self._whole(_with_numbers(flat, numbers), masked=True)
            call = parts.CallResult(predictions=predictions, fixed=after, losses=[])
            found = parts.compared(
                model, batch, call, trainable=trainable, metrics=metrics
            )
            told = (found.total, found.outputs, found.fixed, found.metrics)
            return parts.scaled(model, found.total, optimizer), told

        # By the weights, too: a loss may use them itself (a temperature, a layer that
        # compute_loss calls), which does not come by way of predictions.
        (slopes, beside), told = jax.grad(loss_of, argnums=(0, 1), has_aux=True)(
            _numbers(flat), trainable
        )
        total, outputs, after, metrics = told

        def backward(carried: Any, part_of: Batch, part: float, start: Any) -> Any:
            # Begun with the state that the first pass began with: the same random masks.
            sums, fixed = carried
            samples = parts.samples_in(part_of[0])
            mine = [_samples(slope, start, samples) for slope in slopes]
            gradients, fixed = jax.grad(self._along, has_aux=True)(
                trainable, (fixed, optimizer), part_of[0], part, mine
            )
            return (_added(sums, gradients), fixed), {"losses": []}

        first = _added(_zeros(trainable), beside)
        (sums, _), _ = self._loop(backward, (first, list(fixed)), batch)
        losses = (total + added.astype(total.dtype), outputs)
        return sums, losses, after, metrics, self._whole(flat, masked=False)

    # --- one slice ---

    def _weighted(self, trainable: Any, state: Any, part_of: Batch, part: float) -> Any:
        """The scaled share of a slice in the loss of its batch, and what else is known."""
        fixed, optimizer, metrics = state
        model, rules = self._model, self._rules
        call = parts.called(model, trainable, fixed, part_of[0])
        found = parts.compared(
            model, part_of, call, trainable=trainable, metrics=metrics
        )
        total = parts.added_loss(model, call.losses, rules, part)
        if found.total is not None:
            total = found.total * parts.share(rules.loss, part, found.total) + total
        outputs = [one * parts.share(rules.loss, part, one) for one in found.outputs]
        return parts.scaled(model, total, optimizer), {
            "losses": [total, *outputs],
            "predictions": self._flat(call.predictions),
            "fixed": found.fixed,
            "metrics": found.metrics,
        }

    def _along(
        self, trainable: Any, state: Any, x: Any, part: float, slopes: list[Any]
    ) -> Any:
        """What has the gradient of a slice in it, by the slopes of the batch's loss."""
        fixed, optimizer = state
        call = parts.called(self._model, trainable, fixed, x)
        numbers = _numbers(self._flat(call.predictions))
        terms = [
            jnp.sum((one * slope).astype("float32"))
            for one, slope in zip(numbers, slopes, strict=True)
        ]
        added = parts.added_loss(self._model, call.losses, self._rules, part)
        scaled = parts.scaled(self._model, added, optimizer)
        return sum(terms, start=scaled.astype("float32")), call.fixed

    # --- the loop ---

    def _loop(self, work: Work, first: Any, batch: Batch) -> tuple[Any, Any]:
        """``work`` on each slice; what was kept of all: scalars in a row, and the samples
        of predictions."""
        total = parts.samples_in(batch[0])
        size = min(self._size, total)
        count, rest = divmod(total, size)

        def body(state: Any, index: Any) -> Any:
            start = index * size
            part_of = _part(batch, start, size)
            return work(state, part_of, size / total, start)

        if self._is_compiled:
            state, kept = jax.lax.scan(body, first, jnp.arange(count))
        else:
            state, kept = _one_by_one(body, first, count)
        joined = _joined(kept)
        if rest:
            start = count * size
            part_of = _part(batch, start, rest)
            state, last = work(state, part_of, rest / total, start)
            last = _joined(jax.tree.map(lambda leaf: leaf[None], last))
            joined = jax.tree.map(lambda *two: jnp.concatenate(two), joined, last)
        return state, joined

    @property
    def _is_compiled(self) -> bool:
        return bool(self._model.jit_compile) and not self._model.run_eagerly

    # --- predictions ---

    def _flat(self, predictions: Any) -> dict[str, Any]:
        """As arrays alone: what else travels with a tensor ends at the next function."""
        leaves = keras.tree.flatten(predictions)
        self._structure = keras.tree.map_structure(lambda _: 0, predictions)
        return {
            "leaves": leaves,
            "masks": [keras_losses.mask_of(leaf) for leaf in leaves],
        }

    def _whole(self, flat: dict[str, Any], *, masked: bool) -> Any:
        """``masked``: as losses see them. Keras gives its metrics of a train step what a
        function returned, which has no mask any more."""
        leaves = [leaf + 0 if masked else leaf for leaf in flat["leaves"]]
        for leaf, mask in zip(leaves, flat["masks"] if masked else (), strict=False):
            if mask is not None:
                keras_losses.set_mask(leaf, mask)
        return keras.tree.pack_sequence_as(self._structure, leaves)

    # --- gradients ---

    def _finished(self, sums: list[Any], trainable: list[Any]) -> list[Any]:
        """As the optimizer expects them."""
        narrow = keras_losses.narrow_variables(self._model)
        variables = self._model.trainable_variables
        return [
            _overflown(total, narrow=id(variable) in narrow).astype(value.dtype)
            for total, variable, value in zip(sums, variables, trainable, strict=True)
        ]


def _overflown(total: Any, *, narrow: bool) -> Any:
    # In one piece this gradient would have been summed in float16: where that overflows,
    # the loss scaler must see it, or its clock would differ.
    if not narrow:
        return total
    return jnp.where(jnp.abs(total) >= FLOAT16_OVERFLOW, total * jnp.inf, total)


def _zeros(trainable: list[Any]) -> list[Any]:
    """Sums of half-precision gradients are kept in float32."""
    return [
        jnp.zeros(one.shape, "float32" if one.dtype.name in parts.HALF else one.dtype)
        for one in trainable
    ]


def _added(sums: list[Any], gradients: list[Any]) -> list[Any]:
    return [
        so_far + one.astype(so_far.dtype)
        for so_far, one in zip(sums, gradients, strict=True)
    ]


def _samples(leaf: Any, start: Any, size: int) -> Any:
    return jax.lax.dynamic_slice_in_dim(jnp.asarray(leaf), start, size)


def _part(batch: Batch, start: Any, size: int) -> Batch:
    x, y, weight = (
        slicing.map_leaves(lambda leaf: _samples(leaf, start, size), one)
        for one in batch
    )
    return x, y, weight


def _one_by_one(body: Any, state: Any, count: int) -> tuple[Any, Any]:
    """As ``jax.lax.scan``, but eagerly: what the script's code prints, it prints."""
    kept = []
    for index in range(count):
        state, one = body(state, index)
        kept.append(one)
    return state, jax.tree.map(lambda *leaves: jnp.stack(leaves), *kept)


def _joined(kept: Any) -> Any:
    """Of what was kept of several slices: (slices, samples, …) as (samples, …), and
    scalars in a row."""
    return jax.tree.map(
        lambda leaf: leaf if leaf.ndim < 2 else leaf.reshape(-1, *leaf.shape[2:]), kept
    )


def _is_number(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jnp.inexact))


def _numbers(flat: dict[str, Any]) -> list[Any]:
    """The predictions that a loss may be differentiated by."""
    return [leaf for leaf in flat["leaves"] if _is_number(leaf)]


def _with_numbers(flat: dict[str, Any], numbers: list[Any]) -> dict[str, Any]:
    """``flat`` with these in their places."""
    left = iter(numbers)
    leaves = [next(left) if _is_number(leaf) else leaf for leaf in flat["leaves"]]
    return {**flat, "leaves": leaves}
