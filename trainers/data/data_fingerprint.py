"""A fingerprint of the training data, cheap: enough to tell that they are others."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainers.backends import keras_compat, tf_data

SAMPLED = 64
"""Rows of an array that are hashed, evenly spread, the first and the last among them."""

MOST_BYTES = 4096
"""Of each row."""

MOST_TENSORS = 64
"""Of a pipeline: the first of them."""

TENSORS = "tensors"
"""Key of what snapshots of before did not have."""

Fingerprint = dict[str, Any]


def of_arrays(inputs: Any) -> Fingerprint:
    """Shapes, dtypes and a hash of sampled rows; O(1) in the number of samples."""
    leaves = [leaf for leaf in keras_compat.tree.flatten(inputs) if leaf is not None]
    return {
        "shapes": [[str(s) for s in getattr(leaf, "shape", ())] for leaf in leaves],
        "dtypes": [str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves],
        "rows": [_hash_of_rows(leaf) for leaf in leaves],
    }


def _hash_of_rows(leaf: Any) -> str | None:
    shape = getattr(leaf, "shape", None)
    if shape is None or not len(shape) or not hasattr(leaf, "__getitem__"):
        return None
    total = hashlib.blake2b(digest_size=16)
    count = int(shape[0])
    for index in np.unique(np.linspace(0, count - 1, min(SAMPLED, count)).astype(int)):
        try:
            row = np.asarray(leaf[int(index)])
        except (TypeError, ValueError, LookupError, NotImplementedError):
            return None  # sparse or ragged: shapes and dtypes have to do
        if row.dtype == object:
            return None
        total.update(np.ascontiguousarray(row).tobytes()[:MOST_BYTES])
    return total.hexdigest()


def of_pipeline(dataset: Any) -> Fingerprint:
    """Shapes and dtypes of its elements, how many there are, where that is known, and a
    hash of sampled rows of the tensors that it was made of, where these are in memory:
    of numbers, as texts may be names of files, which lie elsewhere on another machine."""
    return {
        "elements": repr(dataset.element_spec),
        "count": int(dataset.cardinality()),
        TENSORS: [
            _hash_of_rows(one) for one in tf_data.tensors_of(dataset)[:MOST_TENSORS]
        ],
    }


def difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What differs, in a few words; None: nothing that shows."""
    names = {
        "kind": "they are of another kind",
        "shapes": "their shapes are others",
        "dtypes": "their types are others",
        "rows": "samples have other values",
        "elements": "their elements are of another shape or type",
        "count": "there are more or fewer",
        TENSORS: "the tensors that the pipeline is made of have other values",
    }
    if TENSORS not in was:
        del names[TENSORS]
    for name, sentence in names.items():
        if was.get(name) != now.get(name):
            if name == TENSORS:
                return sentence
            return f"{sentence} ({was.get(name)} then, {now.get(name)} now)"
    return None
