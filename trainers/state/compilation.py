"""How a model is compiled and which of its layers train, where a ``fit`` changes that.

A callback that unfreezes layers and compiles the model again leaves an optimizer that
the script, run from its top, has not made yet.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import keras

from trainers.backends import keras_compat, keras_losses
from trainers.state.references import UntrustedNameError, is_trusted

AGAIN = (
    "a callback compiles the model anew, and that cannot be done again after a restart"
    " ({}): what compile set is what the script sets at the start"
)
Place = tuple[str, int]


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
        if any(trains.get(at, before) != before for at, before in self._trains.items()):
            changed["layers"] = [[*at, trains] for at, trains in trains.items()]
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
        for name, number, trains in changed.get("layers", _of_old(layers, changed)):
            layer = layers.get((name, number))
            if layer is not None:
                layer.trainable = trains  # of all in it, too: they come later


def _layers(model: Any) -> dict[Place, Any]:
    """Its layers, each before those inside of it. By name, as a model that is not built yet
    has fewer (none for its input), and by number among those of one name."""
    layers = keras_losses.all_layers(model) if isinstance(model, keras.Layer) else []
    count, found = Counter[str](), dict[Place, Any]()
    for layer in layers:
        found[layer.name, count[layer.name]] = layer
        count[layer.name] += 1
    return found


def _trains(model: Any) -> dict[Place, bool]:
    return {at: bool(one.trainable) for at, one in _layers(model).items()}


def _of_old(layers: Mapping[Place, Any], changed: Mapping[str, Any]) -> list[list[Any]]:
    """What an earlier version saved, one after the other, as ``layers``."""
    trains = changed.get("trains", ())
    return [[*at, one] for at, one in zip(layers, trains, strict=False)]


def _refuse_untrusted(config: Any) -> None:
    """Raises UntrustedNameError."""
    for place in keras_compat.foreign_names(config):
        if not is_trusted(place):
            raise UntrustedNameError(place)
