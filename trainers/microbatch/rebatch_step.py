"""The rebatched step: a script's own ``train_step`` for each of several smaller batches.

Nobody knows what such a step does with its batch (a contrast between samples, several
optimizers), so its gradients cannot be added up over slices. Where the spec allows it,
each batch becomes k smaller ones, and the script's step is done for each. Epochs,
steps, callbacks, data order and snapshots stay what they were; what changes is what is
computed: k updates where there was one, each from fewer samples. So the spec says as
well what becomes of the learning rate:

- ``keep``: it stays.
- ``linear``: it is divided by k (Goyal et al. 2017, arXiv:1706.02677, section 2.1,
  read downwards).
- ``sqrt``: it is divided by the root of k (Krizhevsky 2014, arXiv:1404.5997, section
  5, which keeps the variance of an update).
"""

from collections.abc import Callable
from typing import Any

import keras

from trainers.backends import keras_compat
from trainers.backends.selected import backend

EXPONENTS = {"keep": 0.0, "sqrt": 0.5, "linear": 1.0}
"""The learning rate is divided by this power of k, by the spec's rule."""


def maker(model: Any, rule: str) -> Callable[..., Any]:
    """Makes the step, of the variables ``size`` and ``seen``; ``rule``: a key of
    ``EXPONENTS``."""
    return backend.slices.reduced_step(
        model, exponent=EXPONENTS[rule], rates=rates(model)
    )


def deviations(model: Any, rule: str) -> tuple[str, ...]:
    """What is not as it would have been, as sentences for the incident."""
    own = (
        f"{type(model).__name__} has a train_step of its own: each batch became several"
        f" smaller ones, each with an update of its own (learning rate: {rule})"
    )
    told = [own]
    if len(rates(model)) < len(_optimizers(model)):
        told.append(
            "a learning rate follows a schedule, which counts those updates and was"
            " not changed"
        )
    return tuple(told)


def rates(model: Any) -> list[Any]:
    """The learning rates of the model's optimizers, as far as they are variables."""
    found = [keras_compat.learning_rate(one) for one in _optimizers(model)]
    return [rate for rate in found if rate is not None]


def _optimizers(model: Any) -> list[Any]:
    """Those that ``compile`` was given, and those in attributes; inner ones too."""
    outer = [
        one
        for one in vars(model).values()
        if isinstance(one, keras.optimizers.Optimizer)
    ]
    found = {id(one): one for one in [model.optimizer, *outer] if one is not None}
    return [getattr(one, "inner_optimizer", one) for one in found.values()]
