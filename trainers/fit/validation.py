"""The data of the validation inside a ``fit``: how often they were iterated.

Keras begins them anew for each validation. A shuffle in them, which the training data
may share, is put where it was when a ``fit`` is resumed.
"""

from collections.abc import Iterator
from typing import Any

import keras

from trainers.backends import keras_compat, tf_data


class Validation:
    """Follows the epoch iterator that ``fit`` makes for its validation."""

    def __init__(self) -> None:
        self._was = {"begun": 0, "used": 0}
        self._iterator: Any = None
        self._used = 0
        self._current: Any = None

    def resume(self, was: dict[str, int], given: Any) -> None:
        """Go on from the position ``was``; ``given``: ``fit``'s validation data."""
        self._was = was
        tf_data.replay(given, made=was["begun"], used=was["used"])

    def is_looked_at_again(self, given: Any) -> bool:
        """Whether Keras' iterator over ``given``, the data of the validation, asks them for
        batches again, to know their shapes, as one of an earlier attempt has."""
        of_python = isinstance(given, keras.utils.PyDataset)
        return of_python and self._iterator is None and self._was["begun"] > 0

    def position(self) -> dict[str, int]:
        """Iterators made of the data, and drawn from."""
        begun = 0 if self._iterator is None else self._iterator.begun
        return {
            "begun": self._was["begun"] + begun,
            "used": self._was["used"] + self._used,
        }

    def follow(self, iterator: Any, model: Any) -> Iterator[Any]:
        """Keras' own loop over ``iterator``; counted if that is the validation's."""
        if not keras_compat.is_validation(iterator, model):
            yield from iterator.keras_own()
            return
        self._iterator = iterator
        for step in iterator.keras_own():
            if step[-1] is not self._current:
                self._current = step[-1]
                self._used += 1
            yield step
