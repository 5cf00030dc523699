"""The state of a ``PyDataset`` itself: saved with the fit, restored before its pass.

Many shuffle indices of their own in ``on_epoch_end``. What counts is the state with which
a pass began: batches are asked for ahead of training, so a later one belongs to no step.
What is large is the data themselves: it is not saved, but looked at.
"""

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data import data_fingerprint
from trainers.snapshots.tensor_image import Tensor, of_array
from trainers.state import callback_state, decode, encode
from trainers.state.hidden import fingerprint
from trainers.state.hidden.fingerprint import Mark
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
ASKED = "data/asked"
"""Before the names of tensors of what changes as it is asked for batches."""

PLACES = (str, bytes, pathlib.PurePath)
"""Names and paths may be those of this process: they are saved only once they change."""

STUCK = (
    "the PyDataset {} has a value in {} that cannot be put where it was ({}): its"
    " batches may be others"
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
    marks: Mapping[str, Mark] = field(default_factory=dict[str, Mark])
    """Of that, what changes with it."""

    @property
    def array_bytes(self) -> int:
        """Of what is saved."""
        return sum(one.nbytes for one in self.tensors)

    @property
    def seen(self) -> tuple[Any, ...]:
        """What is not saved, as far as it was looked at."""
        return dict(self.large), dict(self.missing), dict(self.marks)

    def with_newer(self, other: "PyDatasetState") -> "PyDatasetState":
        """This one, with the attributes that ``other``, of some only, has."""
        ours, theirs = json.loads(self.text), json.loads(other.text)
        gone = tuple(_prefix(at) for at, name in enumerate(ours) if name in theirs)
        kept = [one for one in self.tensors if not one.name.startswith(gone)]
        return replace(
            self,
            text=json.dumps({**ours, **theirs}).encode(),
            tensors=(*kept, *other.tensors),
        )

    def same(self, other: "PyDatasetState") -> bool:
        """Whether nothing that is saved changed."""
        return self.text == other.text and all(
            np.array_equal(one.read(), two.read())
            for one, two in zip(self.tensors, other.tensors, strict=True)
        )


def changed_names(before: PyDatasetState, after: PyDatasetState) -> set[str]:
    """The attributes that are saved of both, and are not the same."""
    ours, theirs = _by_name(before), _by_name(after)
    return {name for name in ours if ours[name] != theirs.get(name)}


def _by_name(state: PyDatasetState) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for index, (name, value) in enumerate(json.loads(state.text).items()):
        prefix = _prefix(index)
        own = [one for one in state.tensors if one.name.startswith(prefix)]
        found[name] = value, [(one.layout, one.read().tobytes()) for one in own]
    return found


def _prefix(index: int, place: str = "data") -> str:
    return f"{place}/{index:04d}/"


def changeable_in(dataset: Any, names: Collection[str]) -> list[Any]:
    """All that can change in these attributes, by which something else may have it."""
    met = encode.Met()
    encoder = _encoder(_prefix(0), met)
    for name in names:
        with contextlib.suppress(encode.UnencodableError):
            encoder.encode(vars(dataset).get(name))
    return met.values()


def _encoder(prefix: str, met: encode.Met | None = None) -> encode.StateEncoder:
    return encode.StateEncoder(
        prefix,
        array_of=backend.values.framework_array,
        kind_of=backend.values.kind_of,
        refers=callback_state.refers,
        met=met,
    )


def capture(
    dataset: Any, *, places: Mapping[str, Any], only: Collection[str] | None = None
) -> PyDatasetState:
    """The state of ``dataset`` now; ``places``: as ``places_of``, when it was new.
    ``only``: these attributes, and without a look at what is not saved."""
    saved: dict[str, Any] = {}
    tensors: list[Tensor] = []
    large, missing, marks = {}, {}, {}
    for name, value in getattr(dataset, "__dict__", {}).items():
        if name in keras_compat.PY_DATASET_SETTINGS or (
            name in places and places[name] == value
        ):
            continue
        if only is not None and name not in only:
            continue
        encoder = _encoder(_prefix(len(saved), "data" if only is None else ASKED))
        try:
            encoded = None if _is_long(value) else encoder.encode(value)
        except encode.UnencodableError as error:
            if not callback_state.refers(value):
                missing[name] = str(error)
                marks[name] = fingerprint.of(value) if only is None else None
            continue
        if _is_long(value) or _size(encoded, encoder.tensors) > MOST_BYTES:
            large[name] = _mark(value) if only is None else None
            continue
        saved[name] = encoded
        tensors += [of_array(one.name, np.array(one.read())) for one in encoder.tensors]
    text = json.dumps(saved).encode()
    return PyDatasetState(
        text=text,
        tensors=tuple(tensors),
        large=large,
        missing=missing,
        marks=marks,
    )


def marks_of(dataset: Any) -> dict[str, Mark]:
    """What changes with each attribute that is small enough to be saved."""
    return {
        name: fingerprint.of(value)
        for name, value in list(getattr(dataset, "__dict__", {}).items())
        if name not in keras_compat.PY_DATASET_SETTINGS
        and not (_is_long(value) or getattr(value, "nbytes", 0) > MOST_BYTES)
        and not callback_state.refers(value)
    }


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
