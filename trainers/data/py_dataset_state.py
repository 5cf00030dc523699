"""The state of a ``PyDataset`` itself: saved with the fit, restored before its pass.

Many shuffle indices of their own in ``on_epoch_end``. What counts is the state with which
a pass began: batches are asked for ahead of training, so a later one belongs to no step.
What is large is the data themselves: it is not saved, but looked at.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data import data_fingerprint
from trainers.snapshots.tensor_image import Tensor, of_array
from trainers.state import callback_state, decode, encode
from trainers.state.iterator_state import NoWayBackError
from trainers.state.references import UntrustedNameError

MOST_BYTES = 1 << 20
"""Of an attribute that is saved; what is larger is taken for the data."""
MOST_ITEMS = 50_000
"""Of a list that is looked at to find out how large it is."""
SAMPLED = 64
"""Items of a long list that are looked at, evenly spread."""
TEXT = "data/state"
"""Tensor with the attributes as JSON, padded, so that another epoch's has its size."""
PADDED_BYTES = 4096

PLACES = (str, bytes, pathlib.PurePath)
"""Names and paths may be those of this process: they are saved only once they change."""

ASKED = (
    "the PyDataset {} changes its own state as it is asked for batches, which happens"
    " ahead of training: after a restart samples are neither repeated nor skipped, but"
    " what it draws may differ"
)
LARGE = (
    "the PyDataset {} changes {} from epoch to epoch, which is too large to be saved with"
    " the state: after a restart its batches may be others (change the order of an index"
    " instead)"
)
UNKNOWN = (
    "the PyDataset {} has an on_epoch_begin or on_epoch_end of its own and keeps {} in"
    " {}, which cannot be saved: after a restart its batches may be others"
)
STUCK = (
    "the PyDataset {} has a value in {} that cannot be put where it was ({}): its"
    " batches may be others"
)
PARTS = (
    "the PyDataset {} has an on_epoch_begin or on_epoch_end of its own, and an epoch is"
    " no whole pass (steps_per_epoch): after a restart its batches may be others"
)


@dataclass(frozen=True, kw_only=True)
class PyDatasetState:
    """The attributes of a dataset at one moment, copied."""

    text: bytes = b"{}"
    tensors: tuple[Tensor, ...] = ()
    large: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is not saved, by a mark that changes with it; None: not looked into."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """What cannot be saved: its type."""

    def same(self, other: "PyDatasetState") -> bool:
        """Whether nothing that is saved changed."""
        return self.text == other.text and all(
            np.array_equal(one.read(), two.read())
            for one, two in zip(self.tensors, other.tensors, strict=True)
        )


def capture(dataset: Any, *, places: Mapping[str, Any]) -> PyDatasetState:
    """The state of ``dataset`` now; ``places``: as ``places_of``, when it was new."""
    saved: dict[str, Any] = {}
    tensors: list[Tensor] = []
    large, missing = {}, {}
    for name, value in getattr(dataset, "__dict__", {}).items():
        if name in keras_compat.PY_DATASET_SETTINGS or (
            name in places and places[name] == value
        ):
            continue
        encoder = encode.StateEncoder(
            f"data/{len(saved):04d}/",
            array_of=backend.values.framework_array,
            kind_of=backend.values.kind_of,
            refers=callback_state.refers,
        )
        try:
            encoded = None if _is_long(value) else encoder.encode(value)
        except encode.UnencodableError as error:
            if not callback_state.refers(value):
                missing[name] = str(error)
            continue
        if _is_long(value) or _size(encoded, encoder.tensors) > MOST_BYTES:
            large[name] = _mark(value)
            continue
        saved[name] = encoded
        tensors += [of_array(one.name, np.array(one.read())) for one in encoder.tensors]
    text = json.dumps(saved).encode()
    return PyDatasetState(
        text=text, tensors=tuple(tensors), large=large, missing=missing
    )


def places_of(dataset: Any) -> dict[str, Any]:
    """Its attributes that are left out as long as they are what they are now."""
    return {
        name: value
        for name, value in getattr(dataset, "__dict__", {}).items()
        if isinstance(value, PLACES)
    }


def tensors_of(state: PyDatasetState) -> list[Tensor]:
    """``state`` as tensors to store."""
    text = state.text + b" " * (-len(state.text) % PADDED_BYTES)
    return [of_array(TEXT, np.frombuffer(text, np.uint8)), *state.tensors]


def put_back(dataset: Any, stored: Mapping[str, np.ndarray]) -> list[str]:
    """Give ``dataset`` the state in a snapshot's tensors; nothing if they hold none.

    Returns a sentence for each attribute that stays as it is.
    """
    if TEXT not in stored:
        return []
    told = []
    decoder = decode.StateDecoder(stored, assign=backend.values.framework_value)
    for name, value in json.loads(stored[TEXT].tobytes()).items():
        present = vars(dataset).get(name)
        try:
            setattr(dataset, name, decoder.decode(value, existing=present))
        except (NoWayBackError, UntrustedNameError) as error:
            told.append(STUCK.format(type(dataset).__name__, name, error))
    return told


def has_hooks(dataset: Any) -> bool:
    """Whether its class does something between epochs."""
    own, base = type(dataset), keras.utils.PyDataset
    names = ("on_epoch_begin", "on_epoch_end")
    return any(getattr(own, name) is not getattr(base, name) for name in names)


class Followed:
    """The state of one dataset through the passes of a ``fit``."""

    def __init__(self, dataset: Any, *, whole_passes: bool) -> None:
        """``dataset`` as the script made it; ``whole_passes``: an epoch is one pass."""
        self._dataset, self._whole_passes = dataset, whole_passes
        self._name = type(dataset).__name__
        self._places = places_of(dataset)
        self._hooks = has_hooks(dataset)
        self._state = self._capture()
        self._asked = False
        self._changed: list[str] = []
        self._stuck: list[str] = []
        self._inside = False

    def _capture(self) -> PyDatasetState:
        return capture(self._dataset, places=self._places)

    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """The pass that is resumed began with this."""
        self._stuck = put_back(self._dataset, stored)
        self._state = PyDatasetState()

    def pass_began(self) -> None:
        """``on_epoch_begin`` is done: this is what the pass is made of."""
        before, self._state = self._state, self._capture()
        self._asked = False
        for name, mark in self._state.large.items():
            if name in before.large and before.large[name] != mark:
                self._changed.append(name)

    def tensors(self, *, drawn: bool, done: bool) -> list[Tensor]:
        """What to save: of the pass that runs, or of now where the fit is ``done``."""
        if done:
            self._state = self._capture()
        elif drawn and not self._asked:
            self._asked = True
            self._inside = self._inside or not self._state.same(self._capture())
        return tensors_of(self._state)

    def why_not_exact(self) -> list[str]:
        """A sentence for each reason known by now."""
        told = [LARGE.format(self._name, name) for name in self._changed]
        told += self._stuck
        if self._inside:
            told.append(ASKED.format(self._name))
        if not self._hooks:
            return told
        if not self._whole_passes:
            told.append(PARTS.format(self._name))
        unknown = {
            name: "an object" for name, mark in self._state.large.items() if not mark
        }
        for name, kind in {**unknown, **self._state.missing}.items():
            told.append(UNKNOWN.format(self._name, kind, name))
        return told


def _is_long(value: Any) -> bool:
    items = isinstance(value, (list, tuple, dict, set, frozenset))
    return items and len(value) > MOST_ITEMS


def _size(encoded: Any, tensors: list[Tensor]) -> int:
    return sum(one.nbytes for one in tensors) + len(json.dumps(encoded))


def _mark(value: Any) -> Any:
    """What changes with ``value``, by a look at some of it; None: it is not looked at."""
    if isinstance(value, np.ndarray):
        return data_fingerprint.of_arrays(value)
    if not isinstance(value, (list, tuple)):
        return None
    places = np.unique(np.linspace(0, len(value) - 1, SAMPLED).astype(int))
    text = repr([value[index] for index in places]).encode()
    return len(value), hashlib.blake2b(text, digest_size=16).hexdigest()
