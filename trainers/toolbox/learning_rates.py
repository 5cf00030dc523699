"""Learning rates for a batch that really changes.

When: a batch is smaller because a larger one does not fit, and it is not accumulated.
Slices (``trainwarden run``, ``gradients_in_slices``) leave the update as it was: there the
learning rate stays as it is, and to scale it is a mistake.

Traps: these rules hold for a while, not for any factor (Shallue et al. 2019, "Measuring
the Effects of Data Parallelism": none of them holds for all models). The number of updates
an epoch changes with the batch as well: a schedule that counts steps has to be stretched
by the same factor. BatchNormalization sees other batches, whatever the rate.
"""

import math
import operator
from dataclasses import dataclass
from typing import Any


def _factor(batch: int, new_batch: int) -> float:
    try:
        fit = operator.index(batch) > 0 and operator.index(new_batch) > 0
    except TypeError:
        fit = False
    if not fit:
        message = (
            f"batches have one sample or more, got {batch!r} and {new_batch!r}: give whole"
            " numbers"
        )
        raise ValueError(message)
    return new_batch / batch


def _number(rate: Any) -> float:
    if callable(rate) and not hasattr(type(rate), "__float__"):
        message = (
            f"rate is a {type(rate).__name__}: make the schedule anew, with its rates"
            " scaled and its steps times batch / new_batch"
        )
        raise TypeError(message)
    if not hasattr(type(rate), "__float__"):
        message = f"rate is {rate!r}: give a number, as 0.1"
        raise TypeError(message)
    if not 0 <= (number := float(rate)) < math.inf:
        message = f"rate is {number}: give a finite one from 0"
        raise ValueError(message)
    return number


def linear(rate: float, *, batch: int, new_batch: int) -> float:
    """The rate for ``new_batch`` samples where ``rate`` was right for ``batch``: for SGD,
    with momentum or without, by as much as the batch.

    Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.1; upwards they warm up
    over five epochs (``keras.optimizers.schedules.CosineDecay(warmup_target=…)``).
    Raises ValueError where a batch is empty, or the rate negative or not finite; TypeError
    for a schedule, which has steps to be stretched as well.
    """
    return _number(rate) * _factor(batch, new_batch)


def square_root(rate: float, *, batch: int, new_batch: int) -> float:
    """The same by the square root: what keeps the variance of an update (Krizhevsky 2014,
    "One weird trick", section 5). Raises what ``linear`` does."""
    return float(_number(rate) * _factor(batch, new_batch) ** 0.5)


@dataclass(frozen=True, slots=True)
class AdamSettings:
    """What of Adam depends on the batch; the defaults are those of Keras."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7


def adam(settings: AdamSettings, *, batch: int, new_batch: int) -> AdamSettings:
    """The settings for ``new_batch`` samples where ``settings`` were right for ``batch``.

    Not the learning rate alone: the moving averages reach over as many samples as before.
    Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms",
    definition 5.2, with k = new_batch / batch: rate · √k, 1 - k (1 - beta) for both,
    epsilon / √k. Raises what ``linear`` does, and ValueError where a batch is so much
    larger that no average would be left.
    """
    _check_settings(settings)
    factor = _factor(batch, new_batch)
    beta_1 = 1 - factor * (1 - settings.beta_1)
    beta_2 = 1 - factor * (1 - settings.beta_2)
    if min(beta_1, beta_2) < 0:
        message = (
            f"a batch {factor:g} times as large leaves nothing of Adam's moving averages:"
            " find its settings anew"
        )
        raise ValueError(message)
    return AdamSettings(
        learning_rate=square_root(
            settings.learning_rate, batch=batch, new_batch=new_batch
        ),
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=settings.epsilon / factor**0.5,
    )


def _check_settings(settings: object) -> None:
    if not isinstance(settings, AdamSettings):
        message = (
            f"settings is {settings!r}: give them together, as"
            " AdamSettings(learning_rate=0.001)"
        )
        raise TypeError(message)
