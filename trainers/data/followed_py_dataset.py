"""A ``PyDataset`` through the passes of a ``fit``: its own state, and what is not exact."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from trainers.data import py_dataset_state
from trainers.data.asked_state import AskedState
from trainers.data.py_dataset_state import PyDatasetState
from trainers.snapshots.tensor_image import Tensor

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
PARTS = (
    "the PyDataset {} has an on_epoch_begin or on_epoch_end of its own, and an epoch is"
    " no whole pass (steps_per_epoch): after a restart its batches may be others"
)


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
        self._places = py_dataset_state.places_of(dataset)
        self._hooks = has_hooks(dataset)
        self._state = self._capture()
        self._asked = False
        self._changed: list[str] = []
        self._stuck: list[str] = []
        self._inside = False
        self.asked = AskedState(self._capture)

    def _capture(self, *, marked: bool = True) -> PyDatasetState:
        return py_dataset_state.capture(
            self._dataset, places=self._places, marked=marked
        )

    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """The pass that is resumed began with this."""
        self._stuck = py_dataset_state.put_back(self._dataset, stored)
        self._state = PyDatasetState()
        self.asked.begin()

    def pass_began(self) -> None:
        """``on_epoch_begin`` is done: this is what the pass is made of."""
        before, self._state = self._state, self._capture()
        self._asked = False
        for name, mark in self._state.large.items():
            if name in before.large and before.large[name] != mark:
                self._changed.append(name)

    def tensors(self, *, drawn: int, done: bool) -> list[Tensor]:
        """What to save: of the pass that runs, of which ``drawn`` batches were used up, or of
        now where the fit is ``done``."""
        if done:
            self._state = self._capture()
            self._inside = self._inside or self.asked.is_ahead_of(drawn)
        elif self.asked.names:
            return py_dataset_state.tensors_of(self.asked.at(drawn))
        elif drawn and not self._asked:
            self._asked = True
            self._inside = self._inside or not self._state.same(self._capture())
        return py_dataset_state.tensors_of(self._state)

    def changed_by_asking(self) -> list[Any]:
        """What it changes as it is asked for batches: nobody else may have it."""
        names = self.asked.names
        return py_dataset_state.changeable_in(self._dataset, names) if names else []

    def why_not_exact(self) -> list[str]:
        """A sentence for each reason known by now."""
        told = [LARGE.format(self._name, name) for name in self._changed]
        told += self._stuck
        if self._inside or self.asked.is_lost:
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
