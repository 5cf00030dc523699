"""The parts of a train step as functions of state: the model's call, its losses, metrics.

Each mirrors what ``JAXTrainer.train_step`` does with a whole batch, for some samples of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import keras

from trainers.backends import keras_losses
from trainers.backends.slices.slice_loss import LossRule, LossRules, compare

HALF = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What a call of the model gave."""

    predictions: Any
    fixed: list[Any]
    """The values of the non-trainable variables after it."""
    losses: list[Any]
    """By ``add_loss`` and regularisers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossResult:
    """Scalars of a slice, or of a whole batch, and the state after they were computed."""

    total: Any
    outputs: list[Any]
    """The loss of each output, for the logs; empty for a single output."""
    fixed: list[Any]
    metrics: list[Any]


def called(model: Any, trainable: Any, fixed: Any, x: Any) -> CallResult:
    """``model``, called for training, with these values of its variables."""
    training = {"training": True} if keras_losses.takes_training(model) else {}
    found = model.stateless_call(trainable, fixed, x, return_losses=True, **training)
    predictions, fixed_after, losses = found
    fixed_after = alike(fixed, fixed_after)
    return CallResult(predictions=predictions, fixed=fixed_after, losses=list(losses))


def added_loss(model: Any, losses: list[Any], rules: LossRules, part: Any) -> Any:
    """What of them a slice adds to the loss of its batch, of which it is ``part``."""
    if not losses or keras_losses.own_compute_loss(model):
        return jnp.zeros([])
    with keras_losses.losses_of_call(model, losses):
        added = keras_losses.added_losses(model)
    terms = [
        loss * share(rule, part, loss)
        for loss, rule in zip(added, rules.added, strict=True)
    ]
    return sum(terms[1:], start=terms[0])


def share(rule: LossRule, part: Any, like: Any) -> Any:
    """By what a term of a slice's loss is multiplied."""
    return jnp.asarray(part if rule is LossRule.MEAN else 1.0, jnp.asarray(like).dtype)


def compared(
    model: Any,
    batch: tuple[Any, Any, Any],
    call: CallResult,
    *,
    trainable: Any,
    metrics: Any,
) -> LossResult:
    """The loss between targets and predictions, without what was added to it; None as its
    ``total`` where ``compile`` got no loss."""
    x, y, weight = batch
    mapping = [
        *pairs(model.trainable_variables, trainable),
        *pairs(model.non_trainable_variables, call.fixed),
        *pairs(model.metrics_variables, metrics),
    ]
    with (
        keras_losses.losses_of_call(model, call.losses),
        keras.StatelessScope(state_mapping=mapping) as scope,
    ):
        total, outputs = compare(model, x, y, call.predictions, weight)
    return LossResult(
        total=total,
        outputs=outputs,
        fixed=alike(call.fixed, now(scope, model.non_trainable_variables)),
        metrics=alike(metrics, now(scope, model.metrics_variables)),
    )


def scaled(model: Any, loss: Any, optimizer: Any) -> Any:
    """``loss`` as the optimizer wants it differentiated; ``optimizer``: its values."""
    mapping = pairs(model.optimizer.variables, optimizer)
    with keras.StatelessScope(state_mapping=mapping):
        return model.optimizer.scale_loss(loss)


def metered(
    model: Any, metrics: Any, y: Any, predictions: Any, weight: Any
) -> list[Any]:
    """The values of the metrics after so many samples more."""
    compiled = keras_losses.compiled_metrics(model)
    if compiled is None:
        return list(metrics)
    mapping = pairs(model.metrics_variables, metrics)
    with keras.StatelessScope(state_mapping=mapping) as scope:
        compiled.update_state(y, predictions, sample_weight=weight)
    return alike(metrics, now(scope, model.metrics_variables))


def logged(
    model: Any,
    metrics: Any,
    losses: tuple[Any, Sequence[Any]],
    batch: tuple[Any, Any, Any],
    predictions: Any | None,
) -> tuple[Any, list[Any]]:
    """The logs of a step on ``batch``, and the values of the metrics after it.

    ``losses``: of the batch, and of each output; ``predictions``: those that metrics are
    still to be given; None: they were.
    """
    x, y, weight = batch
    samples = samples_in(x)
    mapping = pairs(model.metrics_variables, metrics)
    with keras.StatelessScope(state_mapping=mapping) as scope:
        keras_losses.loss_tracker(model).update_state(losses[0], sample_weight=samples)
        means = keras_losses.output_loss_metrics(model)
        for metric, value in zip(means, losses[1], strict=False):
            metric.update_state(value, sample_weight=samples)
        logs = (
            model.get_metrics_result()
            if predictions is None
            else model.compute_metrics(x, y, predictions, sample_weight=weight)
        )
    return logs, alike(metrics, now(scope, model.metrics_variables))


def samples_in(structure: Any) -> int:
    """Samples in a structure of arrays (n, …)."""
    leaves = [leaf for leaf in keras.tree.flatten(structure) if leaf is not None]
    return int(leaves[0].shape[0])


def pairs(variables: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Each variable with its value, as a stateless scope takes them."""
    return list(zip(variables, values, strict=True))


def now(scope: Any, variables: Sequence[Any]) -> list[Any]:
    """Their values at the end of ``scope``."""
    values = [scope.get_current_value(one) for one in variables]
    return [
        variable.value if value is None else value
        for variable, value in zip(variables, values, strict=True)
    ]


def alike(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """``after`` in the types of ``before``: a loop asks that of its state."""
    return [jnp.asarray(new, old.dtype) for old, new in zip(before, after, strict=True)]
