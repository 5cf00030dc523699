"""How a model is compiled and which of its layers train, where a ``fit`` changes that.

A callback that unfreezes layers and compiles the model again leaves an optimizer that
the script, run from its top, has not made yet.
"""

import json
from collections.abc import Mapping
from typing import Any

import keras

from trainers.backends import keras_compat, keras_losses
from trainers.state.references import UntrustedNameError, is_trusted

AGAIN = (
    "a callback compiles the model anew, and that cannot be done again after a restart"
    " ({}): what compile set is what the script sets at the start"
)


class Compilation:
    """What it is when ``fit`` begins."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._config = keras_compat.compiled_with(model)
        self._trains = _trains(model)

    def capture(self) -> tuple[dict[str, Any], list[str]]:
        """What is another since, as JSON; and why not all of it, in a sentence."""
        changed: dict[str, Any] = {}
        trains = _trains(self._model)
        if trains != self._trains:
            changed["trains"] = trains
        if keras_compat.compiled_with(self._model) is self._config:
            return changed, []
        try:
            changed["config"] = json.loads(json.dumps(self._model.get_compile_config()))
        except (TypeError, ValueError) as error:
            return changed, [AGAIN.format(error)]
        return changed, []

    def restore(self, changed: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
        """Let the model be as it was; ``own``: the script's functions and classes by
        name. Before its variables get their values."""
        if "config" not in changed:
            return []
        self.unfreeze(changed)
        try:
            _refuse_untrusted(changed["config"])
            with keras.saving.custom_object_scope(dict(own)):
                self._model.compile_from_config(changed["config"])
        except Exception as error:  # noqa: BLE001  # of the script's own classes, too
            return [AGAIN.format(error)]
        self._model.make_train_function(force=True)
        return []

    def unfreeze(self, changed: Mapping[str, Any]) -> None:
        """Let the layers train that did; without another ``compile`` only once the
        optimizer is built and the step traced, as they were."""
        layers = _layers(self._model)
        for layer, trains in zip(layers, changed.get("trains", ()), strict=False):
            layer.trainable = trains  # of all in it, too: they come later


def _layers(model: Any) -> list[Any]:
    layers = isinstance(model, keras.Layer)
    return keras_losses.all_layers(model) if layers else []


def _trains(model: Any) -> list[bool]:
    return [bool(layer.trainable) for layer in _layers(model)]


def _refuse_untrusted(config: Any) -> None:
    """Raises UntrustedNameError."""
    for place in keras_compat.foreign_names(config):
        if not is_trusted(place):
            raise UntrustedNameError(place)
