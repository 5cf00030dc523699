"""What callbacks, and the dictionary of a session, keep is saved entry by entry."""

from typing import Any

import keras
import numpy as np

from trainers.fit.custom_loop import LoopSnapshot
from trainers.state import callback_state
from trainers.state.decode import Made
from trainers.state.encode import Met
from trainers.state.variable_state import Places


def given_back(saved: Any, anew: Any) -> list[str]:
    """``saved`` into ``anew``; what was told when it was saved."""
    places = Places([])
    states, tensors, told = callback_state.encode_all([saved], places, Met())
    stored = {tensor.name: np.asarray(tensor.read()) for tensor in tensors}
    assert callback_state.decode_all([anew], states, stored, places, Made()) == []
    return told


def test_one_entry_that_nobody_can_save_does_not_take_the_others_along() -> None:
    """It is told by name, and stays as the script makes it again."""
    kept, anew = LoopSnapshot({}), LoopSnapshot({})
    kept.kept |= {"best": 0.5, "rows": (row for row in ""), "seen": np.arange(3)}
    anew.kept |= {"best": 1e9, "rows": "made again"}
    dictionary = anew.kept
    (told,) = given_back(kept, anew)
    assert told == (
        "the session keeps builtins.generator in kept['rows'], which cannot be saved"
    )
    assert anew.kept is dictionary
    assert anew.kept.pop("seen").tolist() == [0, 1, 2]
    assert anew.kept == {"best": 0.5, "rows": "made again"}


def test_a_whole_dictionary_comes_back_as_it_was() -> None:
    """Without what the script put there since."""
    kept, anew = LoopSnapshot({}), LoopSnapshot({})
    kept.kept["best"] = 0.5
    anew.kept |= {"best": 1e9, "more": 1}
    assert given_back(kept, anew) == []
    assert anew.kept == {"best": 0.5}


class Watching(keras.callbacks.Callback):
    """Refers to a layer from inside of a dictionary."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.called = 3  # a name of the script's own
        self.by_name = {"layer": layer, "count": 0}


def test_what_a_dictionary_refers_to_is_the_scripts() -> None:
    """Nothing is told of it, and it stays what it is."""
    layer = keras.layers.Dense(2)
    saved, anew = Watching(keras.layers.Dense(2)), Watching(layer)
    saved.by_name["count"] = 7
    assert given_back(saved, anew) == []
    assert anew.by_name == {"layer": layer, "count": 7}


def test_callbacks_that_are_deaf_hear_no_batch() -> None:
    """Also one whose method is an attribute of its own; afterwards all is as it was."""
    heard: list[int] = []
    given = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: heard.append(batch)  # noqa: ARG005  # Keras' names
    )
    before = dict(vars(given))
    with callback_state.deaf([given]):
        given.on_train_batch_begin(1)
        given.on_train_batch_end(1, {})
    assert (heard, vars(given)) == ([], before)
    given.on_train_batch_end(2, {})
    assert heard == [2]


class EntryKey:
    """A key that can change."""


def test_a_key_of_an_entry_that_cannot_be_saved_is_saved_where_it_is_met_again() -> (
    None
):
    """The entry is left out, and nobody has the key then."""
    saved, anew = LoopSnapshot.__new__(LoopSnapshot), LoopSnapshot.__new__(LoopSnapshot)
    key = EntryKey()
    vars(saved).update(held={key: (row for row in "")}, again=[key])
    vars(anew).update(held={}, again=[])
    given_back(saved, anew)
    (made,) = vars(anew)["again"]
    assert type(made) is EntryKey
