"""Tables of pandas in plain parts: columns, index and values.

A callback's log is often one. What comes of its parts is compared with it before they are
taken for it. pandas is asked only where the script has imported it. What is looked at to see
whether one has changed is its content: it has no Python attributes that would tell.
"""

import sys
from typing import Any

import numpy as np

from trainers.state.iterator_state import NoWayBackError

NUMBERS = "biuf"
"""Kinds of dtypes whose values are an array of the same (numpy.dtype.kind)."""
TIMES = "mM"
"""... are one of int64, counted in a unit that the dtype names."""
MOST_BYTES = 16 << 20
"""A larger one is data, and no log."""
TEXTS = frozenset({"object", "str", "string"})
"""Dtypes whose values are looked at one by one."""


def is_of_pandas(value: Any) -> bool:
    """Whether the class of ``value`` is one of pandas, or derived from one."""
    kinds = type(value).__mro__
    return any(one.__module__.partition(".")[0] == "pandas" for one in kinds)


def content(value: Any) -> Any:
    """What there is of a table, column, index or array of pandas, in plain values and arrays
    of NumPy; of a large one the rows that a 16 MiB one would have, evenly spread. None:
    ``value`` is none of these."""
    pandas: Any = sys.modules.get("pandas") if is_of_pandas(value) else None
    if pandas is None:
        return None
    if isinstance(value, (pandas.DataFrame, pandas.Series)):
        return _content_of_table(value)
    if isinstance(value, pandas.MultiIndex):
        levels = map(value.get_level_values, range(value.nlevels))
        return list(value.names), [_content_of_array(pandas, one) for one in levels]
    if isinstance(value, pandas.Index):
        return list(value.names), _content_of_array(pandas, value)
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return _content_of_array(pandas, value)
    return None


def _content_of_table(value: Any) -> Any:
    table = value if value.ndim > 1 else value.to_frame()
    some = table.iloc[:: int(table.memory_usage().sum()) // MOST_BYTES + 1]
    return (
        value.shape, content(table.columns), content(some.index), dict(value.attrs),
        _own_attributes(value), _content_of_columns(some),
    )  # fmt: skip


def _content_of_columns(table: Any) -> Any:
    pandas = sys.modules["pandas"]
    kinds = {*table.dtypes}
    if len(kinds) == 1 and all(map(_is_of_numbers, kinds)):
        return table.to_numpy()  # one by one a thousand take a tenth of a second
    each = (table.iloc[:, number] for number in range(table.shape[1]))
    return [_content_of_array(pandas, one) for one in each]


def _is_of_numbers(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in NUMBERS


def _content_of_array(pandas: Any, value: Any) -> Any:
    if isinstance(value.dtype, np.dtype) and not value.dtype.hasobject:
        return value.to_numpy()
    if str(value.dtype) in TEXTS:
        return str(value.dtype), value.tolist()
    array = getattr(value, "array", value)
    return str(value.dtype), pandas.util.hash_array(array, categorize=False)


def _own_attributes(table: Any) -> dict[str, Any]:
    """What the script has set as attributes of it, which are no columns."""
    names = [one for one in vars(table) if not one.startswith("_")]
    return {one: vars(table)[one] for one in names if not hasattr(type(table), one)}


def parts(value: Any) -> dict[str, Any] | None:
    """What ``made`` makes the same table or column of; None: ``value`` is none, or it is
    made of something else (categories, several levels of an index, say)."""
    if type(value).__module__.partition(".")[0] != "pandas":
        return None  # and pandas itself is not touched, which may wait to be loaded
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or type(value) not in (pandas.DataFrame, pandas.Series):
        return None
    table = value if type(value) is pandas.DataFrame else value.to_frame()
    if table.memory_usage().sum() > MOST_BYTES or _own_attributes(value):
        return None
    if not value.flags.allows_duplicate_labels:
        return None
    columns = [table.iloc[:, number] for number in range(table.shape[1])]
    values = [_column_parts(one) for one in columns]
    head, index = _index_parts(pandas, table.columns), _index_parts(pandas, table.index)
    if head is None or index is None or any(one is None for one in values):
        return None
    found = {
        "columns": head, "index": index, "values": values,
        "alone": table is not value, "name": None if table is value else value.name,
        "attrs": dict(value.attrs),
    }  # fmt: skip
    return found if _same(made(found), value) else None


def put_back(found: dict[str, Any], existing: Any) -> Any:
    """The table of these ``parts``: ``existing``, if that is one, as others may refer to it.
    Raises NoWayBackError."""
    table = made(found)
    if type(existing) is not type(table):
        return table
    if _is_alike(existing, table):  # where its values lie others may have views of them
        _copy(table, existing)
    else:
        type(existing).__init__(existing, table)
    existing.attrs = table.attrs
    return existing


def _copy(table: Any, existing: Any) -> None:
    if table.ndim == 1:
        existing.iloc[:] = table
        return
    for number in range(table.shape[1]):
        existing.iloc[:, number] = table.iloc[:, number]


def _is_alike(one: Any, other: Any) -> bool:
    """Whether it differs in numbers at most."""
    kinds = [
        [*table.dtypes] if table.ndim > 1 else [table.dtype] for table in (one, other)
    ]
    return bool(
        kinds[0] == kinds[1]
        and all(map(_is_of_numbers, kinds[0]))
        and _has_same_labels(one, other)
    )


def made(found: dict[str, Any]) -> Any:
    """A new table of these ``parts``. Raises NoWayBackError: there is no pandas now."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is None:
        message = "pandas is not imported now"
        raise NoWayBackError(message)
    index = _index(pandas, found["index"])
    columns = {
        number: pandas.Series(_values(one), dtype=one["dtype"], index=index)
        for number, one in enumerate(found["values"])
    }
    table = pandas.DataFrame(columns, index=index)
    table.columns = _index(pandas, found["columns"])
    if found["alone"]:
        table = table.iloc[:, 0].rename(found["name"])
    table.attrs = found.get("attrs", {})
    return table


def _column_parts(column: Any) -> dict[str, Any] | None:
    dtype = column.dtype
    if _is_of_numbers(dtype):
        return {"dtype": str(dtype), "v": column.to_numpy()}
    if isinstance(dtype, np.dtype) and dtype.kind in TIMES:
        return {"dtype": str(dtype), "v": column.to_numpy().view(np.int64)}
    if str(dtype) in TEXTS:
        return {"dtype": str(dtype), "v": column.tolist()}
    return None


def _values(found: dict[str, Any]) -> Any:
    times = found["dtype"].startswith(("datetime64", "timedelta64"))
    return found["v"].view(found["dtype"]) if times else found["v"]


def _index_parts(pandas: Any, index: Any) -> dict[str, Any] | None:
    if type(index) is pandas.RangeIndex:
        return {"range": [index.start, index.stop, index.step], "name": index.name}
    if type(index) is not pandas.Index:
        return None
    column = _column_parts(index)
    return None if column is None else {**column, "name": index.name}


def _index(pandas: Any, found: dict[str, Any]) -> Any:
    if "range" in found:
        return pandas.RangeIndex(*found["range"], name=found["name"])
    return pandas.Index(_values(found), dtype=found["dtype"], name=found["name"])


def _same(one: Any, other: Any) -> bool:
    return bool(one.equals(other) and _has_same_labels(one, other))


def _has_same_labels(one: Any, other: Any) -> bool:
    same = _is_same_index(one.index, other.index)
    if one.ndim > 1:
        return same and _is_same_index(one.columns, other.columns)
    return same and bool(one.name == other.name)


def _is_same_index(one: Any, other: Any) -> bool:
    """Pairs are levels to pandas, or labels: that equals them."""
    same: bool = type(one) is type(other) and one.equals(other)
    return same and one.names == other.names
