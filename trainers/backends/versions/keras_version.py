"""The module for the Keras that is here, and its epoch iterator as ours."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import keras

from trainers.backends import epoch_iterator
from trainers.backends.versions import keras_3_7, keras_3_11


def module_for(version: str) -> ModuleType:
    """That of the newest versions for those that are newer still."""
    minor = tuple(int(part) for part in version.split(".")[:2])
    if minor >= (3, 11):
        return keras_3_11
    if minor >= (3, 7):
        return keras_3_7
    # Not before: it names what newer versions have not.
    from trainers.backends.versions import keras_3_4  # noqa: PLC0415

    return keras_3_4


of_keras: Any = module_for(keras.__version__)


class VersionedIterator(epoch_iterator.Supervised):
    """Hands out steps as this Keras takes them."""

    steps_per_execution: int

    def _get_iterator(self) -> Any:
        self.begun += 1
        return super()._get_iterator()  # type: ignore[misc]  # of the other base

    def handed(self, step: int, batches: Any) -> Any:
        """What ``fit`` is given for the execution that begins with ``step``."""
        return of_keras.handed(step, self.steps_per_execution, batches)

    def keras_own(self) -> Iterator[Any]:  # type: ignore[explicit-override]  # it came with 3.12
        """The loop that it would have without us."""
        return of_keras.keras_own(self, getattr(super(), of_keras.LOOP))


setattr(VersionedIterator, of_keras.LOOP, epoch_iterator.Supervised.steps)
