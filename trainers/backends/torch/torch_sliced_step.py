"""A train step of Keras on PyTorch that works through k slices and updates once.

Each slice goes forward and backward before the next begins, so no more than one is in
memory; ``backward`` adds up in ``grad`` what the slices' losses, weighted as on TensorFlow
(``tensorflow.slices.train_step``), are differentiated to. Any loss that is neither a mean
nor a sum over samples takes two passes: predictions of all slices without gradients, the
loss of the whole batch and its slope by prediction, then each slice's gradients from that.

Nothing is compiled here: a loop inside ``torch.compile`` would be unrolled.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import torch

from supervisor.wire.slices import count
from trainers.backends import keras_losses, slicing
from trainers.backends.slices import batch_ops
from trainers.backends.slices.slice_loss import (
    LossRule,
    LossRules,
    compare,
    predict,
)
from trainers.backends.torch import torch_variables

FLOAT16_MOST = 65520.0
"""Smallest magnitude that rounds to infinity in IEEE 754 binary16."""
HALF = frozenset({torch.float16, torch.bfloat16})

Batch = tuple[Any, Any, Any]
"""x, y and sample weights."""


@dataclass(frozen=True, slots=True)
class _SliceLosses:
    """Scalars of one slice, or of a whole batch."""

    total: Any
    outputs: list[Any]
    """The loss of each output, for the logs; empty for a single output."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """One slice of a batch."""

    start: int
    stop: int
    part: float
    """Its share of the batch."""

    def of(self, batch: Batch) -> Batch:
        """x, y and sample weights of it."""
        x, y, weight = (slicing.cut(one, self.start, self.stop) for one in batch)
        return x, y, weight


class TorchSlicedStep:
    """Takes the place of ``model.train_step``. One instance serves one ``fit``."""

    def __init__(self, model: Any, *, size: Any, seen: Any, rules: LossRules) -> None:
        """``size``, ``seen``: as in ``SliceSupport.step``."""
        self._model = model
        self._size = size
        self._seen = seen
        self._rules = rules
        self._own_loss = keras_losses.own_compute_loss(model)
        self._narrow = keras_losses.narrow_variables(model)
        self._sums: dict[int, Any] = {}

    def __call__(self, data: Any) -> Any:
        """One update from the batch ``data``; the logs, as Keras' own step."""
        model = self._model
        batch = keras.utils.unpack_x_y_sample_weight(data)
        total = batch_ops.length(batch[0])
        self._seen.assign(max(int(self._seen.numpy()), total))
        model.zero_grad()
        self._sums = {}
        cuts = _cuts(total, int(self._size.numpy()))
        step = self._two_passes if self._rules.two_pass else self._one_pass
        losses, predictions = step(batch, cuts)
        with torch.no_grad():
            self._log_losses(losses, total)
            weights = model.trainable_weights[:]
            model.optimizer.apply([self._gradient(one) for one in weights], weights)
            return self._logs(batch, predictions)

    # --- the two ways ---

    def _one_pass(self, batch: Batch, cuts: Sequence[_Cut]) -> tuple[Any, Any]:
        losses, kept = [], []
        for cut in cuts:
            found, predictions = self._slice(batch, cut)
            losses.append(found)
            kept.append(predictions)
        return _added_up(losses), self._together(kept)

    def _slice(self, batch: Batch, cut: _Cut) -> tuple[_SliceLosses, Any]:
        """What of it is kept: its graph, and all it refers to, goes with this call."""
        x, y, weight = cut.of(batch)
        predictions = predict(self._model, x)
        losses = self._losses(x, y, predictions, weight, cut.part)
        self._model.optimizer.scale_loss(losses.total).backward()
        self._take_half()
        alone = _detached(predictions)
        if not self._rules.metrics_whole:
            with torch.no_grad():
                self._update_metrics(y, alone, weight)
        outputs = [value.detach() for value in losses.outputs]
        return (
            _SliceLosses(losses.total.detach(), outputs),
            alone if self._rules.keep_predictions else None,
        )

    def _two_passes(self, batch: Batch, cuts: Sequence[_Cut]) -> tuple[Any, Any]:
        with _seen_again(self._model), torch.no_grad():
            parts, added = [], torch.zeros([])
            for cut in cuts:
                parts.append(predict(self._model, cut.of(batch)[0]))
                added = self._added_loss(cut.part) + added
        predictions = self._together(parts)
        losses, slopes = self._loss_of_whole(batch, predictions, added)
        for cut in cuts:
            self._slice_backward(batch, cut, slopes)
        if not self._rules.metrics_whole:
            with torch.no_grad():
                self._update_metrics(batch[1], predictions, batch[2])
        return losses, predictions

    def _slice_backward(self, batch: Batch, cut: _Cut, slopes: list[Any]) -> None:
        leaves = slicing.leaves(predict(self._model, cut.of(batch)[0]))
        pairs = [
            (leaf, slope[cut.start : cut.stop])
            for leaf, slope in zip(leaves, slopes, strict=True)
            if slope is not None and leaf.requires_grad
        ]
        added = self._model.optimizer.scale_loss(self._added_loss(cut.part))
        if added.requires_grad:
            pairs.append((added, torch.ones_like(added)))
        torch.autograd.backward(
            [one for one, _ in pairs], [slope for _, slope in pairs]
        )
        self._take_half()

    # --- losses ---

    def _losses(
        self, x: Any, y: Any, predictions: Any, weight: Any, part: float
    ) -> Any:
        loss, outputs = compare(self._model, x, y, predictions, weight)
        share = _share(self._rules.loss, part)
        added = self._added_loss(part)
        total = added if loss is None else loss * share + added
        return _SliceLosses(total, [value * share for value in outputs])

    def _added_loss(self, part: float) -> Any:
        added = [] if self._own_loss else keras_losses.added_losses(self._model)
        total = keras.ops.zeros([])
        for loss, rule in zip(added, self._rules.added, strict=True):
            total = total + loss * _share(rule, part)
        return total

    def _loss_of_whole(self, batch: Batch, predictions: Any, added: Any) -> Any:
        """The losses of the batch, and the slope of the scaled one by prediction.

        Weights that the loss itself uses (a temperature, a layer that ``compute_loss``
        calls) have in ``grad`` from here on what does not come by way of predictions.
        """
        x, y, weight = batch
        leaves = slicing.leaves(predictions)
        for leaf in leaves:
            leaf.requires_grad_(leaf.is_floating_point())
        loss, outputs = compare(self._model, x, y, predictions, weight)
        scaled = self._model.optimizer.scale_loss(loss)
        watched = [leaf for leaf in leaves if leaf.requires_grad]
        weights = [one.value for one in self._model.trainable_weights]
        scaled.backward(inputs=[*watched, *weights])
        self._take_half()
        slopes = [leaf.grad for leaf in leaves]
        for leaf in watched:
            leaf.requires_grad, leaf.grad = False, None
        losses = [one.detach() for one in outputs]
        return _SliceLosses(loss.detach() + added, losses), slopes

    # --- gradients ---

    def _take_half(self) -> None:
        """Sums of gradients in half precision are kept in float32."""
        for variable in self._model.trainable_weights:
            gradient = variable.value.grad
            if gradient is not None and gradient.dtype in HALF:
                so_far = self._sums.get(id(variable), 0.0)
                self._sums[id(variable)] = gradient.float() + so_far
                variable.value.grad = None

    def _gradient(self, variable: Any) -> Any:
        """That of the batch; None where there is none."""
        total = self._sums.get(id(variable), variable.value.grad)
        if total is not None and id(variable) in self._narrow:
            # In one piece this gradient would have been summed in float16: where that
            # overflows, the loss scaler must see it, or its clock would differ.
            over = total.abs() >= FLOAT16_MOST
            total = torch.where(over, total * float("inf"), total)
        return None if total is None else total.to(variable.value.dtype)

    # --- metrics and logs ---

    def _together(self, parts: list[Any]) -> Any:
        """Predictions of all slices as those of the batch; None where none are kept."""
        if not self._rules.keep_predictions:
            return None
        first = parts[0]
        flat = [
            _joined(pieces)
            for pieces in zip(*(keras.tree.flatten(one) for one in parts), strict=True)
        ]
        return keras.tree.pack_sequence_as(first, flat)

    def _log_losses(self, losses: _SliceLosses, total: int) -> None:
        tracker = keras_losses.loss_tracker(self._model)
        tracker.update_state(losses.total, sample_weight=total)
        metrics = keras_losses.output_loss_metrics(self._model)
        for metric, value in zip(metrics, losses.outputs, strict=False):
            metric.update_state(value, sample_weight=total)

    def _update_metrics(self, y: Any, predictions: Any, weight: Any) -> None:
        compiled = keras_losses.compiled_metrics(self._model)
        if compiled is not None:
            compiled.update_state(y, predictions, sample_weight=weight)

    def _logs(self, batch: Batch, predictions: Any) -> Any:
        if not self._rules.metrics_whole:
            return self._model.get_metrics_result()
        x, y, weight = batch
        return self._model.compute_metrics(x, y, predictions, sample_weight=weight)


class TorchReducedStep:
    """The script's own step for each of several smaller batches: takes its place."""

    def __init__(
        self,
        model: Any,
        *,
        size: Any,
        seen: Any,
        exponent: float,
        rates: Sequence[Any],
    ) -> None:
        """``size``, ``seen``: as above; ``rates``: learning rates, divided by this power
        of the slices."""
        self._size, self._seen = size, seen
        self._exponent, self._rates = exponent, rates
        self._step: Callable[[Any], Any] = model.train_step

    def __call__(self, data: Any) -> Any:
        """The script's step for each part of the batch ``data``; the last one's logs."""
        total = batch_ops.length(data)
        self._seen.assign(max(int(self._seen.numpy()), total))
        logs = None
        cuts = _cuts(total, int(self._size.numpy()))
        with self._lowered(len(cuts)):
            for cut in cuts:
                logs = self._step(slicing.cut(data, cut.start, cut.stop))
        return logs

    @contextlib.contextmanager
    def _lowered(self, parts: int) -> Iterator[None]:
        """The learning rates by the rule; callbacks and snapshots see the script's."""
        kept = [float(keras.ops.convert_to_numpy(rate)) for rate in self._rates]
        lowers = self._exponent and parts > 1
        try:
            for rate, value in zip(self._rates, kept, strict=True):
                if lowers:
                    rate.assign(value / parts**self._exponent)
            yield
        finally:
            for rate, value in zip(self._rates, kept, strict=True):
                if lowers:
                    rate.assign(value)


def _cuts(total: int, size: int) -> list[_Cut]:
    """As many as slices of ``size`` are, but shared out evenly: modules of PyTorch's may
    refuse what would be left for the last, a single sample (``BatchNorm1d`` does)."""
    slices = count(batch=total, size=max(size, 1))
    edges = [total * index // slices for index in range(slices + 1)]
    return [
        _Cut(start, stop, (stop - start) / total)
        for start, stop in itertools.pairwise(edges)
    ]


def _share(rule: LossRule, part: float) -> float:
    return part if rule is LossRule.MEAN else 1.0


def _added_up(losses: Sequence[_SliceLosses]) -> _SliceLosses:
    outputs = zip(*(one.outputs for one in losses), strict=True)
    return _SliceLosses(sum(one.total for one in losses), [sum(one) for one in outputs])


def _detached(predictions: Any) -> Any:
    return batch_ops.with_company(predictions, lambda leaf: leaf.detach())


def _joined(pieces: Sequence[Any]) -> Any:
    """One prediction of the batch of those of its slices, with the mask of all."""
    if pieces[0] is None:
        return None
    whole = torch.cat(list(pieces))
    masks = [keras_losses.mask_of(piece) for piece in pieces]
    if all(mask is not None for mask in masks):
        keras_losses.set_mask(whole, torch.cat(masks))
    return whole


@contextlib.contextmanager
def _seen_again(model: Any) -> Iterator[None]:
    """What is computed after it sees what is computed within: the same random masks, and
    metrics that the call of the model updates."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    variables = [*batch_ops.changing(model), *model.metrics_variables]
    states = [(one.value, one.value.clone()) for one in variables]
    modules = (module for _, module in torch_variables.modules_of(model))
    buffers = torch_variables.KeptBuffers(modules)
    with torch.random.fork_rng(devices):
        yield
    with torch.no_grad():
        for tensor, before in states:
            tensor.copy_(before)
    buffers.put_back()
