"""Traces of the train function that finished fits had made, where they are given back.

TensorFlow traces the step for the shapes of a fit's batches, and uses a trace again for
later fits whose shapes it covers. So which trace a fit gets depends on those before it, and
two traces of one step may round otherwise: the sizes that one knows are folded into its
kernels. A fit that is given back makes no trace; the next of the same model makes those
that it would have found, and gets the one that it would have got.
"""

from typing import Any

from trainers.backends.selected import backend

_KEPT = "_trainwarden_traced_for"
"""Attribute of a model: its train function, and the shapes that it was traced for."""


def remember(model: Any, element_spec: Any) -> None:
    """A fit of ``model`` with batches of ``element_spec`` was given back."""
    if model.run_eagerly or not backend.traces.TRACES:
        return
    model.make_train_function()
    function, specs = vars(model).get(_KEPT, (None, []))
    earlier = specs if function is model.train_function else []
    # Past Keras, which looks for variables in what it is given.
    object.__setattr__(model, _KEPT, (model.train_function, [*earlier, element_spec]))


def make_again(model: Any) -> None:
    """``model`` is about to be trained: make the traces that it would have by now.

    Raises what the script's step raises. Where it was compiled anew since, its traces are
    gone as they would be.
    """
    function, specs = vars(model).pop(_KEPT, (None, []))
    if function is None or function is not model.train_function:
        return
    for element_spec in specs:
        backend.traces.trace_train(model, element_spec)
