"""A digest of a model: what decides the memory of a step beside the batch.

Equal digests mean that sizes measured with one model hold for the other: the same
layers, weights, optimizer and shapes of data. Nothing of the script's own is called.
"""

import hashlib
import json
from typing import Any

import keras


def of(model: Any, element_spec: Any) -> str | None:
    """The digest of ``model`` trained on batches of ``element_spec``; None where it has
    not made its weights yet: what it will be, nobody knows."""
    layers = list(model._flatten_layers(include_self=False))
    if not (model.built and all(layer.built for layer in layers)):
        return None
    described = {
        "model": _kind(model),
        "layers": [_layer(layer) for layer in layers],
        "weights": [_weight(one) for one in model.weights],
        "optimizer": _kind(model.optimizer),
        "data": [
            (list(leaf.shape)[1:], str(leaf.dtype))
            for leaf in keras.tree.flatten(element_spec)
            if hasattr(leaf, "shape") and leaf.shape.rank
        ],
    }
    text = json.dumps(described, sort_keys=True, default=_kind)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def _kind(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _weight(variable: Any) -> tuple[list[int], str, bool]:
    return list(variable.shape), str(variable.dtype), bool(variable.trainable)


def _layer(layer: Any) -> tuple[str, str, Any]:
    """Class, precision, and how it was set up: of Keras' own layers, less their names."""
    precision = str(getattr(layer.dtype_policy, "name", ""))
    own = not type(layer).__module__.startswith("keras.")
    if own or isinstance(layer, keras.Model):  # a model is told by its layers
        return _kind(layer), precision, None
    config = layer.get_config()
    return _kind(layer), precision, {k: v for k, v in config.items() if k != "name"}
