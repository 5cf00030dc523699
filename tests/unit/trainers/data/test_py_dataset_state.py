"""What a ``PyDataset`` keeps in itself: saved, given back, or told."""

import random
import string
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.certify.certify import run_rows, short
from tests.certify.table import TABLE
from tests.support.zygote import Zygote
from trainers.data import followed_py_dataset, py_dataset_state


@pytest.mark.slow
def test_an_order_of_its_own_goes_on_after_kills(zygote: Zygote) -> None:
    """A dataset that mixes its indices between epochs, with Python's, NumPy's and its own
    generator, ends with the bits of plain Python, each sample once an epoch."""
    rows = [row for row in TABLE if row.name == "py_dataset_own_order"]
    (verdict,) = run_rows(short(rows), zygote, seed=2)
    assert verdict.problems == []
    assert verdict.bits


class Mixing(keras.utils.PyDataset):
    """Has hooks, and is asked for nothing here."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.__dict__.update(attributes)

    def __getitem__(self, index: int) -> Any:
        return index

    def on_epoch_end(self) -> None:
        """One of its own."""


class Still(Mixing):
    """Has none."""

    on_epoch_end = keras.utils.PyDataset.on_epoch_end


def saved(dataset: Any, **options: Any) -> dict[str, np.ndarray]:
    """A snapshot's tensors of it."""
    state = py_dataset_state.capture(dataset, places=options.get("places", {}))
    return {one.name: one.read().copy() for one in py_dataset_state.tensors_of(state)}


def test_attributes_come_back_in_place() -> None:
    """Arrays, containers and generators; what another object refers to stays that."""
    order, rng, own = np.arange(50), np.random.default_rng(3), random.Random(4)  # noqa: S311  # no secret
    one = Mixing(order=order, rng=rng, own=own, epoch=2, names=["a", "b"], none=None)
    rng.shuffle(order)
    stored = saved(one)
    ahead = rng.random(), own.random()
    was = order.copy()
    rng.shuffle(order)
    one.epoch, one.names = 3, ["b"]
    py_dataset_state.put_back(one, stored)
    assert one.order is order
    np.testing.assert_array_equal(order, was)
    assert (rng.random(), own.random()) == ahead
    assert (one.epoch, one.names) == (2, ["a", "b"])


def test_a_state_is_a_copy() -> None:
    """What happens to the dataset after it was taken does not reach it."""
    one = Mixing(order=np.arange(50))
    state = py_dataset_state.capture(one, places={})
    one.order[:] = 0
    assert not state.same(py_dataset_state.capture(one, places={}))
    stored = {
        tensor.name: tensor.read() for tensor in py_dataset_state.tensors_of(state)
    }
    py_dataset_state.put_back(one, stored)
    np.testing.assert_array_equal(one.order, np.arange(50))


def test_names_of_places_are_those_of_the_process() -> None:
    """A temporary directory of the attempt before may be gone; a text that changes in
    training is state."""
    before = Mixing(directory=Path("/here/before"), stage="warm")
    places = py_dataset_state.places_of(before)
    before.stage = "hot"
    after = Mixing(directory=Path("/here/after"), stage="warm")
    py_dataset_state.put_back(after, saved(before, places=places))
    assert (after.directory, after.stage) == (Path("/here/after"), "hot")


def test_an_iterator_goes_on_and_one_that_cannot_is_told() -> None:
    """It is made anew at its beginning, and moved."""
    before, after = Mixing(letters=iter("abcd")), Mixing(letters=iter("abcd"))
    next(before.letters)
    assert py_dataset_state.put_back(after, saved(before)) == []
    assert list(after.letters) == ["b", "c", "d"]
    (told,) = py_dataset_state.put_back(after, saved(before))
    assert "a value in letters" in told
    assert "further on" in told


def followed(
    dataset: Any, *, whole_passes: bool = True
) -> followed_py_dataset.Followed:
    """In its first pass, and nothing drawn."""
    run = followed_py_dataset.Followed(dataset, whole_passes=whole_passes)
    run.pass_began()
    return run


def test_what_may_not_be_exact_is_told() -> None:
    """Each reason by its sentence; the data themselves and models are no reason."""
    big, model = np.zeros(300_000), keras.Sequential()
    fine = followed(Mixing(x=big, model=model, function=len, order=np.arange(9)))
    assert fine.why_not_exact() == []
    assert sum(one.nbytes for one in fine.tensors(drawn=1, done=False)) < 5000
    unknown = followed(Mixing(letters=(one for one in string.ascii_letters)))
    (told,) = unknown.why_not_exact()
    assert "Mixing has an on_epoch_begin or on_epoch_end" in told
    assert "in letters, which cannot be saved" in told
    assert followed(Still(letters=iter(""))).why_not_exact() == []
    (told,) = followed(Mixing(), whole_passes=False).why_not_exact()
    assert "no whole pass" in told


@pytest.mark.parametrize(
    "x", [np.arange(300_000), list(range(60_000))], ids=["array", "list"]
)
def test_large_data_that_are_mixed_themselves_are_told(x: Any) -> None:
    """They are not saved: only looked at, at each epoch."""
    one = Mixing(x=x)
    run = followed(one)
    run.pass_began()
    assert run.why_not_exact() == []
    one.x[:] = one.x[::-1]
    run.pass_began()
    (told,) = run.why_not_exact()
    assert "changes x from epoch to epoch" in told


def test_state_that_batches_change_is_told() -> None:
    """It runs ahead of training: kept is what the pass began with."""
    one = Mixing(rng=np.random.default_rng(3))
    run = followed(one)
    first = [tensor.read().tobytes() for tensor in run.tensors(drawn=0, done=False)]
    one.rng.random()
    again = run.tensors(drawn=1, done=False)
    assert [tensor.read().tobytes() for tensor in again] == first
    (told,) = run.why_not_exact()
    assert "as it is asked for batches" in told


def asked(
    run: followed_py_dataset.Followed, numbers: range, draw: Any, *, trained: int = 0
) -> list[Any]:
    """What ``draw`` gave as the batches ``numbers`` were asked for."""
    drawn = []
    for number in numbers:
        with run.asked.asked(number, trained=trained):
            drawn.append(draw())
    return drawn


def put_back(run: followed_py_dataset.Followed, drawn: int, dataset: Any) -> None:
    """Into ``dataset`` what is saved after ``drawn`` batches."""
    tensors = run.tensors(drawn=drawn, done=False)
    stored = {one.name: np.array(one.read()) for one in tensors}
    assert py_dataset_state.put_back(dataset, stored) == []


def test_what_it_draws_as_it_is_asked_belongs_to_a_batch() -> None:
    """Asked for ahead of training, each batch is drawn again as it was."""
    one = Mixing(rng=np.random.default_rng(3), counts=np.zeros(5), own=random.Random(4))  # noqa: S311  # no secret

    def draw() -> Any:
        one.counts[one.own.randrange(5)] += 1
        return one.rng.random(), one.counts.tolist()

    run = followed(one)
    drawn = asked(run, range(6), draw, trained=1)
    assert run.why_not_exact() == []
    for number in (5, 1, 3):
        put_back(run, number, one)
        assert draw() == drawn[number]
    assert set(map(type, run.changed_by_asking())) >= {
        np.random.Generator, np.ndarray, random.Random,
    }  # fmt: skip


def test_what_begins_to_draw_in_a_later_pass() -> None:
    """The first question of each pass tells."""
    one = Mixing(rng=np.random.default_rng(3))
    run = followed(one)
    asked(run, range(3), lambda: None)
    assert run.changed_by_asking() == []
    run.asked.begin()
    drawn = asked(run, range(3), one.rng.random)
    put_back(run, 1, one)
    assert one.rng.random() == drawn[1]
    assert run.why_not_exact() == []


@pytest.mark.parametrize(
    "attributes",
    [
        {"letters": (one for one in "abcd")},
        {"letters": [{"many": index} for index in range(9000)]},
        {"letters": np.zeros(300_000)},
    ],
    ids=["generator", "long", "large"],
)
def test_what_asking_changes_and_nobody_follows_is_told(
    attributes: dict[str, Any],
) -> None:
    """It cannot be saved, or is too much to be looked at for each batch."""
    one = Still(**attributes)

    def draw() -> Any:
        letters = one.letters
        if isinstance(letters, list):
            letters[0]["many"] += 1
        elif isinstance(letters, np.ndarray):
            letters += 1.0
        else:
            next(letters)

    run = followed(one)
    asked(run, range(2), draw)
    (told,) = run.why_not_exact()
    assert "as it is asked for batches" in told


@pytest.mark.parametrize("what", ["what it draws from", "another attribute"])
def test_a_callback_that_writes_into_what_draws_is_told(what: str) -> None:
    """Which batches see it is a matter of timing."""
    one = Mixing(rng=np.random.default_rng(3), scale=1.0)
    run = followed(one)
    asked(run, range(3), one.rng.random)
    run.tensors(drawn=1, done=False)
    assert run.why_not_exact() == []
    if what == "another attribute":
        one.scale = 0.5
    else:
        one.rng.random()
    asked(run, range(3, 4), one.rng.random)
    run.tensors(drawn=2, done=False)
    (told,) = run.why_not_exact()
    assert "as it is asked for batches" in told


def test_a_long_list_of_files_is_not_looked_at_for_each_batch() -> None:
    """Only what asking changes is: the rest is that of the pass."""
    names = [f"images/{index:06d}.png" for index in range(9000)]
    one = Mixing(rng=np.random.default_rng(3), names=names)
    run = followed(one)
    drawn = asked(run, range(3), one.rng.random)
    put_back(run, 2, one)
    assert one.rng.random() == drawn[2]
    assert run.why_not_exact() == []


def test_a_fit_that_ends_before_what_was_asked_for_is_told() -> None:
    """How far that was depends on timing."""
    one = Mixing(rng=np.random.default_rng(3))
    run = followed(one)
    asked(run, range(4), one.rng.random)
    run.tensors(drawn=4, done=True)
    assert run.why_not_exact() == []
    run.tensors(drawn=3, done=True)
    assert run.why_not_exact() != []
