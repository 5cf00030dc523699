"""What else training makes: models beside the one that is trained are built as their first
batch comes. A restart builds them before it gives their variables back."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from trainers.backends import keras_compat, keras_losses
from trainers.backends.selected import backend
from trainers.state.hidden.reachable import Reached
from trainers.state.hidden.watched_variables import MADE_SINCE
from trainers.state.variable_state import Places

LATE = (
    "what {} holds is made in training, where a restart has nothing yet to put it in: it"
    " begins anew"
)


class LateModels:
    """The models that a ``fit`` reaches: which were built since it began."""

    def __init__(self, trained: Any) -> None:
        """``trained``: the model of the ``fit``, whose build makes the models inside of it."""
        self._trained, self._begun = trained, set[str]()

    def begin(self, found: Reached) -> None:
        """``found``: what ``fit`` begins with."""
        self._begun = {path for path, one in found.models.items() if one.built}

    def builds(self, found: Reached) -> dict[str, Any]:
        """How to build those that were not built then, as JSON, by path.

        Of plain lists of layers alone: what another kind makes as it is built may hang on
        what it is called with.
        """
        is_model = isinstance(self._trained, keras.Layer)
        below = keras_losses.layers_below(self._trained) if is_model else ()
        inside = {id(one) for one in below}
        late = {
            path: keras_compat.build_config(one)
            for path, one in found.models.items()
            if path not in self._begun
            and type(one) is keras.Sequential
            and id(one) not in inside
        }
        return {path: config for path, config in late.items() if config is not None}

    def lost(
        self,
        variables: Mapping[str, Any],
        found: Reached,
        places: Places,
        met: Callable[[Any], bool],
    ) -> list[str]:
        """The paths of objects with some of ``variables`` (those that are saved, by path)
        that were made since ``fit`` began, and that a restart does not make. ``met``: whether
        one is saved as part of a value, which makes it."""
        made = {id(one) for one in self._made_again(found)}
        lost = [
            path
            for path, one in variables.items()
            if places.path_of(one) is None and id(one) not in made and not met(one)
        ]
        return [*dict.fromkeys(map(_owner, lost))]

    def _made_again(self, found: Reached) -> Iterator[Any]:
        builds = self.builds(found)
        for path, model in found.models.items():
            if path in builds:
                yield from model.variables
            optimizer: Any = getattr(model, "optimizer", None)
            known = isinstance(optimizer, keras.optimizers.Optimizer)
            if known and (path in builds or path in self._begun):
                yield from optimizer.variables


def _owner(path: str) -> str:
    """What the variable at ``path`` is one of: those of an object have numbers."""
    begun = path.removesuffix(MADE_SINCE.format(""))
    above, _, last = begun.rpartition("/")
    return above if last.isdecimal() else begun


def build(found: Reached, builds: Mapping[str, Any]) -> None:
    """Build those of ``found`` that are not built yet, and their optimizers. (One that cannot
    be built is told of: its variables have no place.)"""
    for path, config in builds.items():
        model = found.models.get(path)
        if model is not None and not model.built:
            with contextlib.suppress(Exception):
                keras_compat.build_as_before(model, config)
    backend.hidden.build_optimizers(found.models.values())
