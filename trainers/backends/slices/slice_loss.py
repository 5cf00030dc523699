"""The loss of a slice, and the rules by which slices make up the loss of a batch."""

import enum
from dataclasses import dataclass
from typing import Any

from trainers.backends import keras_losses


class LossRule(enum.StrEnum):
    """How a term of the loss of the whole follows from those of its slices."""

    MEAN = "mean"
    """The mean, weighted by the slices' sizes."""
    SUM = "sum"
    WHOLE = "whole"
    """It does not: only the whole batch has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRules:
    """What is exact for a model; found out by the check of a model before training."""

    loss: LossRule = LossRule.MEAN
    """The loss between targets and predictions (all of it, if ``compute_loss`` is the
    user's own)."""
    added: tuple[LossRule, ...] = ()
    """One a tensor of ``model.losses``: ``add_loss`` and regularisers. Never WHOLE."""
    draws: bool = False
    """Slices draw the random numbers of the whole batch (``slice_draws``)."""
    metrics_whole: bool = False
    """Metrics need the predictions of the whole batch at once."""

    @property
    def two_pass(self) -> bool:
        """Whether the loss needs the predictions of the whole batch at once."""
        return self.loss is LossRule.WHOLE

    @property
    def keep_predictions(self) -> bool:
        """Whether predictions of all slices are kept until the end of the step."""
        return self.two_pass or self.metrics_whole


class _Recorder:
    """Stands in for the metric of one output's loss, and keeps the value."""

    def __init__(self) -> None:
        self.value: Any = None

    def update_state(self, value: Any, sample_weight: Any = None) -> None:
        """Keep ``value``; its weight is known to the step."""
        del sample_weight
        self.value = value


def predict(model: Any, x: Any) -> Any:
    """The predictions of ``model`` in training, as Keras' own step calls it."""
    return model(x, training=True) if keras_losses.takes_training(model) else model(x)


def compare(model: Any, x: Any, y: Any, predictions: Any, weight: Any) -> Any:
    """The loss between targets and predictions, and a list of the outputs' losses.

    The loss is a scalar tensor, or None where ``compile`` got none. A ``compute_loss``
    of the user's own answers for everything, added losses included. The metrics of the
    outputs' losses are left alone.
    """
    recorders = [_Recorder() for _ in keras_losses.output_loss_metrics(model)]
    with keras_losses.output_losses_into(model, recorders):
        if keras_losses.own_compute_loss(model):
            loss = keras_losses.total_loss(
                model, x=x, y=y, y_pred=predictions, sample_weight=weight
            )
        else:
            compiled = keras_losses.compiled_loss(model)
            loss = None if compiled is None else compiled(y, predictions, weight)
    values = [recorder.value for recorder in recorders]
    return loss, [value for value in values if value is not None]
