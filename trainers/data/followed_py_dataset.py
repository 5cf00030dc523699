"""A ``PyDataset`` through the passes of a ``fit``: its own state, and what is not exact."""

from collections.abc import Collection, Mapping
from typing import Any

import keras
import numpy as np

from trainers.data import py_dataset_state
from trainers.data.asked_state import AskedState
from trainers.data.py_dataset_state import PyDatasetState
from trainers.snapshots.tensor_image import Tensor
from trainers.state.hidden.fingerprint import Mark

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
        self._marks: Mapping[str, Mark] = {}
        """Of its attributes, when the pass began."""
        self._changed: list[str] = []
        self._stuck: list[str] = []
        self._inside = False
        self.asked = AskedState(self._capture)

    def _capture(self, only: Collection[str] | None = None) -> PyDatasetState:
        return py_dataset_state.capture(self._dataset, places=self._places, only=only)

    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """The pass that is resumed began with this."""
        self._stuck = py_dataset_state.put_back(self._dataset, stored)
        self._state = PyDatasetState()
        self.asked.begin()

    def pass_began(self) -> None:
        """``on_epoch_begin`` is done: this is what the pass is made of."""
        before, self._state = self._state, self._capture()
        self._marks = py_dataset_state.marks_of(self._dataset)
        for name, mark in self._state.large.items():
            if name in before.large and before.large[name] != mark:
                self._changed.append(name)

    def tensors(self, *, drawn: int, done: bool) -> list[Tensor]:
        """What to save: of the pass that runs, of which ``drawn`` batches were used up, or of
        now where the fit is ``done``."""
        if done:
            self._state = self._capture()
            self._inside = self._inside or self.asked.is_ahead_of(drawn)
        elif drawn:
            self._inside = self._inside or self._has_changed()
            newer = self.asked.at(drawn)
            return py_dataset_state.tensors_of(self._state.with_newer(newer))
        return py_dataset_state.tensors_of(self._state)

    def _has_changed(self) -> bool:
        """Whether something has within the pass, but for what asking is known to change."""
        try:
            now, names = py_dataset_state.marks_of(self._dataset), self.asked.names
        except RuntimeError:  # a dictionary that grows as it is asked, just now
            return True
        return any(
            now.get(name) != self._marks.get(name)
            for name in {*now, *self._marks} - names
        )

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
