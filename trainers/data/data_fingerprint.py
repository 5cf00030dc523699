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

ROWS = "rows"
"""Key of the hashes of arrays."""
TENSORS = "tensors"
"""Key of what snapshots of before did not have."""

Fingerprint = dict[str, Any]


def of_arrays(inputs: Any) -> Fingerprint:
    """Shapes, dtypes and a hash of sampled rows; O(1) in the number of samples."""
    leaves = [leaf for leaf in keras_compat.tree.flatten(inputs) if leaf is not None]
    return {
        "shapes": [[str(s) for s in getattr(leaf, "shape", ())] for leaf in leaves],
        "dtypes": [str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves],
        ROWS: [_hash_of_rows(leaf) for leaf in leaves],
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
        ROWS: "samples have other values",
        "elements": "their elements are of another shape or type",
        "count": "there are more or fewer",
        TENSORS: "the tensors that the pipeline is made of have other values",
    }
    if TENSORS not in was:
        del names[TENSORS]
    for name, sentence in names.items():
        if was.get(name) != now.get(name):
            return f"{sentence}{_told(name, was, now)}"
    return None


def _told(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which they are; hashes tell nobody anything."""
    if name in {ROWS, TENSORS}:
        return _which(name, was, now)
    return f" ({was.get(name)} then, {now.get(name)} now)"


def _which(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The arrays whose hashes differ, by place, shape and type as far as these are known;
    empty where the two are no lists of one length."""
    before, after = was.get(name) or [], now.get(name) or []
    if len(before) != len(after):
        return ""
    places = [
        n for n, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1
    ]
    told = ", ".join(f"{n + 1}{_form(now, n)}" for n in places)
    what = "array" if name == ROWS else "tensor"
    return f" ({what}{'s' if len(places) > 1 else ''} {told} of {len(after)})"


def _form(fingerprint: Mapping[str, Any], index: int) -> str:
    """Shape and type of an array, as `` [64 x 4 float32]``; empty: not known."""
    shapes, types = fingerprint.get("shapes") or [], fingerprint.get("dtypes") or []
    if index >= min(len(shapes), len(types)):
        return ""
    return f" [{' x '.join(shapes[index])} {types[index]}]"
