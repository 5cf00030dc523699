"""Another optimizer in the place of the script's, for what it keeps and how long it takes.

Its losses are those of another computation: its learning rate would have to be chosen anew.
"""

from typing import Any

import keras

MOMENTUM = 0.9
SGD = "SGD"


class NotReplacedError(Exception):
    """The script's optimizer cannot be replaced, as the sentence says."""


def replace(model: Any, name: str) -> None:
    """Let ``model`` train with Keras' optimizer ``name``, at the learning rate that the
    script's has now.

    Raises NotReplacedError.
    """
    before = getattr(model, "optimizer", None)
    if not isinstance(before, keras.optimizers.Optimizer):
        message = "the script has no optimizer that Keras knows of"
        raise NotReplacedError(message)
    scaled = isinstance(before, keras.optimizers.LossScaleOptimizer)
    inner = before.inner_optimizer if scaled else before
    kind = getattr(keras.optimizers, name, None)
    if kind is None:
        message = f"this version of Keras has no optimizer {name}"
        raise NotReplacedError(message)
    if type(inner) is kind:
        message = f"the script trains with {name} already"
        raise NotReplacedError(message)
    settings = {"momentum": MOMENTUM} if name == SGD else {}
    made = kind(learning_rate=float(inner.learning_rate), **settings)
    model.optimizer = keras.optimizers.LossScaleOptimizer(made) if scaled else made
    model.train_function = None
