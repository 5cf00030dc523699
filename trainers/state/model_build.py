"""Making a model's variables without running a step, so that a restore has where to go.

Keras' own ``fit`` never builds a model before its first step: it leaves that to the
tracing of the train function. A model whose ``train_step`` is all there is (no ``call``:
a VAE) or that has optimizers of its own (a GAN) can be built in no other way. Tracing
runs no step and asks for no data; what it draws from random states is given back by the
restore that follows.
"""

from collections.abc import Callable
from typing import Any

from trainers.backends import keras_compat
from trainers.backends.tensorflow import fit_compat as seams
from trainers.backends.tensorflow import tracing


class UnbuildableError(Exception):
    """The variables cannot be made without a step; the text says why."""


def build(
    model: Any, element_spec: Any, *, whole: Callable[[], bool] = lambda: True
) -> None:
    """Make the variables of the model, its metrics and its optimizers.

    ``element_spec``: shapes and dtypes of a batch. One way after the other is tried
    until ``whole()``: each makes variables that another does not, and none takes any
    away, so the way that the model itself takes in training comes first.

    Raises:
        UnbuildableError: no way went through.
    """
    failures: list[Exception] = []
    ways = _ways(model)
    for way in ways:
        try:
            way(model, element_spec)
        except Exception as error:  # noqa: BLE001  # the script's code may do anything
            failures.append(error)
        else:
            if whole():
                return
    if len(failures) == len(ways):
        raise UnbuildableError(str(failures[0])) from failures[0]


def _ways(model: Any) -> list[Callable[[Any, Any], None]]:
    if seams.has_own_train_step(model):
        # A validation's step may have made more: compiled metrics, say.
        first = [tracing.trace_train, tracing.trace_test, keras_compat.build]
    else:
        first = [keras_compat.build, tracing.trace_train]
    return [*first, keras_compat.build_inner_optimizers]
