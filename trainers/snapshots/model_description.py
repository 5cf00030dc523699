"""The description of the model in a snapshot, to be had without the script.

Resuming does not need it: the script makes its model again. ``snapshots export`` does.
"""

import json
import warnings
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainers.snapshots.tensor_image import Tensor, of_array

NAME = "model/json"
"""Tensor with the model's configuration, as ``Model.to_json`` writes it, in UTF-8."""

MOST_BYTES = 16 * 1024 * 1024

_known: "weakref.WeakKeyDictionary[Any, tuple[Any, np.ndarray | None]]" = (
    weakref.WeakKeyDictionary()
)


def tensors_of(model: Any) -> list[Tensor]:
    """The description of ``model``, made once each time that it was compiled.

    None where it cannot be described. ``compile`` gives it an optimizer of its own; that
    is also when layers that were frozen since count as such.
    """
    optimizer = getattr(model, "optimizer", None)
    if model not in _known or _known[model][0] is not optimizer:
        _known[model] = optimizer, _describe(model)
    _, described = _known[model]
    return [] if described is None else [of_array(NAME, described)]


def _describe(model: Any) -> np.ndarray | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script did not ask for this
            text = model.to_json()
    except Exception:  # noqa: BLE001  # a get_config of the script's own may do anything
        return None
    content = np.frombuffer(text.encode(), np.uint8)
    return content if content.nbytes <= MOST_BYTES else None


def read(stored: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """The configuration in a snapshot's tensors; None: it holds none."""
    if NAME not in stored:
        return None
    found: dict[str, Any] = json.loads(stored[NAME].tobytes())
    return found
