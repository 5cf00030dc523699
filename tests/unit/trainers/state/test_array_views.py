"""Arrays in the memory of others are found, told the place of, and made there again."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.state import array_views
from trainers.state.decode import Made, StateDecoder
from trainers.state.encode import StateEncoder
from trainers.state.iterator_state import NoWayBackError

STEPS = st.sampled_from([-3, -2, -1, 1, 2, 3])


def encoded(*values: Any) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Each of ``values``, with one encoder, and what is stored of them."""
    encoder = StateEncoder("x/", array_of=lambda _value: None)
    found = [encoder.encode(one) for one in values]
    encoder.met.join({})
    return found, {one.name: np.array(one.read()) for one in encoder.tensors}


def decoder(stored: dict[str, np.ndarray], whole: Any = None) -> StateDecoder:
    """Of what was ``encoded``."""
    return StateDecoder(
        stored,
        assign=lambda _existing, array, _kind: array,
        whole=whole,
        made=Made(),
    )


@given(st.data(), st.sampled_from(["C", "F"]))
def test_any_part_lies_where_it_lay(data: st.DataObject, order: Any) -> None:
    """Cuts, backwards too, and axes in any order."""
    owner = np.array(np.arange(60).reshape(3, 4, 5), order=order)
    cuts = tuple(
        slice(*data.draw(st.tuples(st.integers(0, n), st.integers(0, n), STEPS)))
        for n in owner.shape
    )
    axes = data.draw(st.permutations(range(3)))
    part = owner[cuts].transpose(axes)
    again = array_views.at_place(owner, array_views.place_in(part, owner))
    assert array_views.are_one(part, again)


@given(st.data())
def test_parts_that_have_memory_in_common_are_seen(data: st.DataObject) -> None:
    """By what has one byte in common, and by nothing else."""
    whole = np.zeros((6, 7))
    cut = st.tuples(st.integers(0, 6), st.integers(1, 7), st.sampled_from([1, 2, 3]))
    parts, taken = array_views.Parts(), np.zeros((6, 7), bool)
    for rows, columns in data.draw(st.lists(st.tuples(cut, cut), max_size=6)):
        where = slice(*rows), slice(*columns)
        assert parts.add(whole[where], whole) is bool(taken[where].any())
        taken[where] = True
    other = np.zeros((6, 7))
    assert not parts.add(other[:], other)


def test_so_many_beside_each_other_are_taken_to_share() -> None:
    """Columns lie within each other's bounds: so many are compared."""
    whole, parts = np.zeros((4, 200)), array_views.Parts()
    told = [parts.add(whole[:, column], whole) for column in range(200)]
    assert told == [False] * 101 + [True] * 99


@pytest.mark.parametrize(
    "place",
    [
        {"at": -8, "shape": [2], "strides": [8]},
        {"at": 0, "shape": [13], "strides": [8]},
        {"at": 88, "shape": [2], "strides": [8]},
        {"at": 0, "shape": [2], "strides": [1 << 40]},
        {"at": 0, "shape": [-1], "strides": [8]},
        {"at": 0, "shape": [2, 2], "strides": [8]},
        {"at": 0, "shape": [1], "strides": [8], "dtype": "object"},
        {"at": 0, "shape": [1], "strides": [8], "dtype": "no such type"},
    ],
)
def test_what_a_snapshot_says_to_lie_outside(place: dict[str, Any]) -> None:
    """It may come from anybody."""
    with pytest.raises(NoWayBackError):
        array_views.at_place(np.zeros(12), {"dtype": "float64", **place})


def test_a_part_that_cannot_be_written_to() -> None:
    """It stays so, and the whole does not become it."""
    owner = np.zeros(4)
    part = owner[1:]
    part.flags.writeable = False
    (whole, told), stored = encoded(owner, part)
    of_both = decoder(stored)
    of_both.decode(whole)
    made = of_both.decode(told)
    assert not made.flags.writeable
    assert made.base.flags.writeable


LARGE = 1000, 1000


def test_small_parts_of_a_large_array_are_saved_alone() -> None:
    """Nobody else may have the large one: a prediction of which one row is kept, say."""
    large = np.zeros(LARGE)
    told, stored = encoded(large[3], large[4], large[10:, 5])
    assert [one["!"] for one in told] == ["array"] * 3
    assert sum(one.nbytes for one in stored.values()) < large.nbytes // 100


def test_parts_of_a_small_array_are_saved_with_it() -> None:
    """From the second on: its rows, say."""
    small = np.zeros((100, 3))
    told, stored = encoded([*small], np.zeros((100, 3))[5])
    assert [one["!"] for one in told[0]] == ["view"] * 100
    assert told[1]["!"] == "array"
    assert sum(one.nbytes for one in stored.values()) == small.nbytes + 2 * 24


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0)])
def test_small_parts_beside_their_large_array(order: tuple[int, ...]) -> None:
    """Whichever comes first: what is written to one is read from the others."""
    large = np.zeros(LARGE)
    values = [[large[3], large[:, 3]][index] if index < 2 else large for index in order]
    told, stored = encoded(*values)
    of_all = decoder(stored, told)
    made = dict(zip(order, map(of_all.decode, told), strict=True))
    made[0][3] = 5.0
    assert (made[1][3], made[2][3, 3]) == (5.0, 5.0)


def test_small_parts_that_have_some_in_common() -> None:
    """Then the large one is saved for them."""
    large = np.zeros(LARGE)
    told, stored = encoded(large[3], large[3:5])
    of_all = decoder(stored, told)
    one, both = map(of_all.decode, told)
    one += 2.0
    assert both.sum() == 2000


def test_a_part_of_what_has_not_changed() -> None:
    """It is where it was found, and is not saved again."""
    large = np.zeros(LARGE)
    encoder = StateEncoder("x/", array_of=lambda _value: None)
    told = encoder.encode(large[3])
    encoder.met.join({id(large): ("", "x")})
    stored = {one.name: np.array(one.read()) for one in encoder.tensors}
    there = np.ones(LARGE)
    of_all = decoder(stored)
    with pytest.raises(NoWayBackError):
        of_all.decode(told)
    made = Made()
    made.held["", "x"] = there
    of_all = StateDecoder(
        stored, assign=lambda _existing, array, _kind: array, made=made
    )
    of_all.decode(told)[:] = 2.0
    assert there.sum() == there.size + 1000


def test_what_was_a_part_of_another_at_the_start_is_none_now() -> None:
    """The other is not written to."""
    (alone,), stored = encoded(np.ones(3))
    table = np.zeros((4, 3))
    made = decoder(stored).decode(alone, existing=table[0])
    assert made.tolist() == [1, 1, 1]
    assert not table.any()


def test_a_part_of_what_is_no_array() -> None:
    """A snapshot that is wrong is told of."""
    place = array_views.place_in(np.zeros(2), np.zeros(2))
    told = {"!": "view", "v": "no array", "in": {**place, "at": 0}}
    with pytest.raises(NoWayBackError):
        decoder({}).decode(told)


def test_a_reshaped_array_stays_the_one_it_was() -> None:
    """Others may hold it that nobody looks at."""
    kept, held = np.arange(6).reshape(2, 3), np.zeros(6, int).reshape(2, 3)
    (told,), stored = encoded(kept)
    assert decoder(stored).decode(told, existing=held) is held
    assert held.tolist() == kept.tolist()
