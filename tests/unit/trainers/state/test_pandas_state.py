"""Tables of pandas are saved by their parts, or not at all."""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.script_packages import script_package
from trainers.state import pandas_state
from trainers.state.decode import StateDecoder
from trainers.state.encode import StateEncoder, UnencodableError
from trainers.state.hidden import fingerprint
from trainers.state.iterator_state import NoWayBackError

pd = script_package("pandas")


def given_back(value: object, existing: object = None) -> Any:
    """``value`` through JSON and tensors."""
    encoder = StateEncoder("x/", array_of=lambda _value: None)
    text = json.dumps(encoder.encode(value))
    stored = {tensor.name: tensor.read().copy() for tensor in encoder.tensors}
    decoder = StateDecoder(stored, assign=lambda _existing, array, _kind: array)
    return decoder.decode(json.loads(text), existing=existing)


def test_a_log_that_grows() -> None:
    """As callbacks keep them: rows added at the end, numbers, words, times, gaps."""
    frame = pd.DataFrame(columns=["epoch", "loss", "note"])
    for epoch in range(3):
        frame.loc[len(frame)] = [epoch, 0.5 / (epoch + 1), None if epoch else "first"]
    frame["at"] = pd.to_datetime([1, 2, 3], unit="s")
    frame["took"] = frame["at"] - frame["at"].iloc[0]
    frame["best"] = [True, False, True]
    again = given_back({"frame": frame, "loss": frame["loss"], "at": frame["at"]})
    pd.testing.assert_frame_equal(again["frame"], frame)
    pd.testing.assert_series_equal(again["loss"], frame["loss"])
    pd.testing.assert_series_equal(again["at"], frame["at"])


def test_who_refers_to_a_table_has_it_too() -> None:
    """It is given back into the one that is there, which the script may hold elsewhere."""
    frame = pd.DataFrame({"loss": [1.0, 0.5]}, index=["a", "b"])
    there, column = pd.DataFrame(), pd.Series(name="other")
    kept = [there, column]
    again = given_back([frame, frame["loss"]], kept)
    assert again[0] is there
    assert again[1] is column
    pd.testing.assert_frame_equal(there, frame)
    pd.testing.assert_series_equal(column, frame["loss"])
    there.loc["c"] = 0.25
    assert there["loss"].tolist() == [1.0, 0.5, 0.25]


def test_where_only_numbers_differ_they_stay_where_they_lie() -> None:
    """Before pandas 3 a view of a table's values is one that can be written to."""
    frame = pd.DataFrame({"loss": [1.0, 0.5], "acc": [0.1, 0.2], "n": [1, 2]})
    there = pd.DataFrame({"loss": np.zeros(2), "acc": np.zeros(2), "n": [0, 0]})
    column, blank = pd.Series([3.0, 4.0]), pd.Series([0.0, 0.0])
    views = [there["loss"].to_numpy(), blank.to_numpy()]
    given_back([frame, column], [there, blank])
    pd.testing.assert_frame_equal(there, frame)
    assert [one.tolist() for one in views] == [[1.0, 0.5], [3.0, 4.0]]


CELLS = st.one_of(
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    st.lists(st.floats(), min_size=3, max_size=3),
    st.lists(st.text(max_size=3), min_size=3, max_size=3),
    st.lists(st.none() | st.text(max_size=3), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
LABELS = st.lists(
    st.integers(-3, 3) | st.text(max_size=2), min_size=3, max_size=3
)  # they may be the same


@given(
    columns=st.dictionaries(st.text(max_size=3), CELLS, max_size=4),
    labels=LABELS,
    name=st.none() | st.text(max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_any_table(
    columns: dict[str, Any], labels: list[Any], name: str | None
) -> None:
    """The same to the last dtype, index and name."""
    index = pd.Index(labels, name=name)
    frame = pd.DataFrame({one: pd.Series(v, index=index) for one, v in columns.items()})
    pd.testing.assert_frame_equal(given_back(frame), frame, check_exact=True)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": pd.Categorical(["x", "y"])}),
        pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
        pd.DataFrame({"a": [object()]}),
        pd.DataFrame({"a": np.zeros(pandas_state.MOST_BYTES // 8 + 1)}),
        pd.DataFrame([[1]], columns=pd.Index([("a", "b")], tupleize_cols=False)),
        pd.DataFrame({"a": [1]}).set_flags(allows_duplicate_labels=False),
    ],
    ids=["categories", "levels", "an object", "large", "pairs", "flags"],
)
def test_what_is_not_plain_is_told(value: object) -> None:
    """By its type, as before."""
    with pytest.raises(UnencodableError, match=r"pandas.*DataFrame|builtins\.object"):
        given_back(value)


OwnTable: Any = type("OwnTable", (pd.DataFrame,), {})
"""A script's own kind."""


def a_table() -> Any:
    """With numbers and words."""
    return pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [1, 2]})


MADE = {
    "table": a_table,
    "own": lambda: OwnTable(a_table()),
    "numbers": lambda: pd.DataFrame(np.eye(2, dtype=np.float32)),
    "large": lambda: pd.DataFrame(np.arange(3.0 * (1 << 20))),
    "column": lambda: pd.Series([1.0, 2.0], name="a"),
    "levels": lambda: a_table().set_index(["b", "c"]),
    "whole": lambda: pd.DataFrame({"a": pd.array([1, None], "Int64")}),
    "days": lambda: pd.DataFrame({"a": pd.period_range("2020", periods=2)}),
    "zoned": lambda: pd.DataFrame({"a": pd.to_datetime([1, 2], utc=True)}),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_value_that_is_set_in_place_is_seen(made: Callable[[], Any]) -> None:
    """A table has no attribute that would be another then; to read it is no change."""
    table = made()
    before = fingerprint.of(table)
    assert table.describe().shape[0] > 0
    assert table.iloc[::-1].index.get_loc(table.index[0]) is not None
    assert fingerprint.of(table) == before
    first = (0, 0) if table.ndim > 1 else 0
    table.iloc[first] = table.iloc[(1, 0) if table.ndim > 1 else 1]
    assert fingerprint.of(table) != before


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a cell": lambda one: one.loc.__setitem__((1, "a"), 5.0),
    "a word": lambda one: one.at.__setitem__((1, "b"), "z"),
    "a column": lambda one: one.__setitem__("new", 1),
    "all of one": lambda one: one.__setitem__("a", one["a"] + 1),
    "a row": lambda one: one.loc.__setitem__(2, [3.0, "z", 3]),
    "names": lambda one: setattr(one, "columns", ["p", "q", "r"]),
    "name of the index": lambda one: setattr(one.index, "name", "step"),
    "attrs": lambda one: one.attrs.__setitem__("best", 1),
    "attribute": lambda one: setattr(one, "best", 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_changed_of_a_table_is_seen(change: Callable[[Any], Any]) -> None:
    """Values, labels and names, and what is said of it."""
    table = a_table()
    before = fingerprint.of(table)
    change(table)
    assert fingerprint.of(table) != before


@pytest.mark.parametrize(
    "value",
    [
        pd.Index(["a", "b"]),
        pd.Categorical(["a", "b"]),
        pd.MultiIndex.from_tuples([(1, 2)]),
    ],
)
def test_what_is_only_used_is_no_change(value: Any) -> None:
    """pandas keeps in it what it found."""
    before = fingerprint.of(value)
    assert pd.Index(value).get_indexer([value[0]]).tolist() == [0]
    assert fingerprint.of(value) == before


def test_what_is_said_of_a_table_comes_back() -> None:
    """``attrs`` are part of it; other attributes are told."""
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["best"] = 0.5
    column = frame["a"]
    column.attrs["unit"] = "s"
    there = pd.DataFrame()
    assert given_back(frame, there) is there
    assert there.attrs == {"best": 0.5}
    assert given_back(column).attrs == column.attrs
    frame.best = 0.5
    with pytest.raises(UnencodableError):
        given_back(frame)


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is a table, and none can be made."""
    found = pandas_state.parts(pd.Series([1, 2], name="a"))
    assert found is not None
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert pandas_state.parts([1, 2]) is None
    with pytest.raises(NoWayBackError, match="pandas is not imported"):
        pandas_state.made(found)
