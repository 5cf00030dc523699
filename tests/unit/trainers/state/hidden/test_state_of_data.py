"""What data change as they are asked for batches: told, or saved as it belongs to a step."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tests.support.hidden_scripts import network
from trainers.state import fit_state, variable_state
from trainers.state.hidden import hidden_state
from trainers.state.variable_state import Places


class DrawnState(keras.utils.PyDataset):
    """Draws from a generator that is not its own."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return np.full((2, 2), GENERATOR.random()), np.zeros((2, 1))


GENERATOR = np.random.default_rng(0)


def test_what_data_change_is_told_as_theirs() -> None:
    """It happens ahead of training."""
    dataset = DrawnState()
    hidden = hidden_state.of_call(network(), [], dataset)
    assert hidden.capture(Places([]))[2] == []
    dataset[0]
    (told,) = hidden.capture(Places([]))[2]
    assert "GENERATOR" in told
    assert "ahead of training" in told


class Flipped(keras.utils.PyDataset):
    """Draws from the seed of a layer that is no part of the model."""

    def __init__(self, trained: Any) -> None:
        super().__init__()
        self.trained = trained
        self.flip = keras.Sequential([keras.layers.RandomFlip("horizontal", seed=3)])
        self.weigh = keras.layers.Dense(2)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        flipped = self.flip(np.ones((2, 2, 2, 1)), training=True)
        return self.weigh(flipped[..., 0, 0]), np.zeros((2, 1))


def test_a_layer_that_augments_the_data_draws_ahead_of_training() -> None:
    """Its seed is another with each batch; weights that it makes at the first one are not,
    and those of the model that is trained are saved."""
    model = network()
    dataset = Flipped(model)
    hidden = hidden_state.of_call(model, [], dataset)
    places = Places([one for _, one in variable_state.storable(model)[0]])
    assert hidden.capture(places)[2] == []
    dataset.weigh(np.ones((2, 2)))
    for variable in model.weights:
        variable.assign(variable + 1)
    assert hidden.capture(places)[2] == []
    dataset[0]
    (told,) = hidden.capture(places)[2]
    assert "flip" in told
    assert "ahead of training" in told


class Unseen(keras.utils.PyDataset):
    """Validation data that draw from a generator of their own, and from NumPy's."""

    def __init__(self) -> None:
        super().__init__()
        self.rng, self.asked = np.random.default_rng(3), 0

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        scale = self.rng.random() + np.random.random()  # noqa: NPY002  # the global one
        return np.full((2, 2), scale), np.zeros((2, 1))


def test_what_validation_data_change_goes_on_where_it_was() -> None:
    """A pass over them is over when training goes on."""
    model, first, second = network(), Unseen(), Unseen()
    hidden = hidden_state.of_call(model, [], batches(), first)
    first[0], first[1]
    state, tensors, told = hidden.capture(Places([]))
    assert told == []
    stored = {one.name: np.array(one.read()) for one in tensors}
    other = hidden_state.of_call(model, [], batches(), second)
    assert other.restore({hidden_state.KEY: state}, stored, Places([])) == []
    assert (second.asked, second.rng.random()) == (2, first.rng.random())


def test_validation_data_that_are_looked_at_again_stand_where_they_stood() -> None:
    """Keras asks them for two batches before it validates first, in each process."""
    model, unseen = network(), Unseen()
    hidden = hidden_state.of_call(model, [], batches(), unseen)
    unseen[0]
    with fit_state.untouched(model, hidden):
        drawn = unseen[0][0], unseen[1][0]
    assert unseen.asked == 1
    again = unseen[0][0], unseen[1][0]
    assert np.array_equal(drawn, again)


def test_the_data_that_are_trained_on_are_not_looked_into() -> None:
    """By way of a callback either: they save themselves what belongs to a step."""
    data = Unseen()
    holder = keras.callbacks.LambdaCallback()
    holder.data = data
    hidden = hidden_state.of_call(network(), [holder], data, data)
    data[0]
    state, _, told = hidden.capture(Places([]))
    assert (state["values"], told) == ({}, [])


def test_what_the_data_draw_from_and_a_callback_has_is_told() -> None:
    """It is saved once as it was for a step, and once as it stands ahead of training."""
    shared, own = np.random.default_rng(3), np.random.default_rng(4)
    holder = keras.callbacks.LambdaCallback()
    holder.rng = shared
    model = network()
    model.stop_training = False

    def told_of(apart: Any) -> list[str]:
        return fit_state.capture(model, [holder], {}, apart=apart)[2]

    assert told_of([own]) == []
    (told,) = told_of([shared])
    assert "callbacks or functions of the script have, too" in told


def batches() -> Iterator[Any]:
    """Data that are no PyDataset."""
    yield np.ones((2, 2)), np.zeros((2, 1))


def test_other_data_are_not_looked_into() -> None:
    """Their sources say what they promise."""
    assert hidden_state.of_call(network(), [], batches()).variables() == []
