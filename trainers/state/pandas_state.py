"""Tables of pandas in plain parts: columns, index and values.

A callback's log is often one. What comes of its parts is compared with it before they are
taken for it. pandas is asked only where the script has imported it.
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


def parts(value: Any) -> dict[str, Any] | None:
    """What ``made`` makes the same table or column of; None: ``value`` is none, or it is
    made of something else (categories, several levels of an index, say)."""
    if type(value).__module__.partition(".")[0] != "pandas":
        return None  # and pandas itself is not touched, which may wait to be loaded
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or type(value) not in (pandas.DataFrame, pandas.Series):
        return None
    table = value if type(value) is pandas.DataFrame else value.to_frame()
    if table.memory_usage().sum() > MOST_BYTES:
        return None
    columns = [table.iloc[:, number] for number in range(table.shape[1])]
    values = [_column_parts(one) for one in columns]
    head, index = _index_parts(pandas, table.columns), _index_parts(pandas, table.index)
    if head is None or index is None or any(one is None for one in values):
        return None
    found = {
        "columns": head, "index": index, "values": values,
        "alone": table is not value, "name": None if table is value else value.name,
    }  # fmt: skip
    return found if _same(made(found), value) else None


def put_back(found: dict[str, Any], existing: Any) -> Any:
    """The table of these ``parts``: ``existing``, if that is one, as others may refer to it.
    Raises NoWayBackError."""
    table = made(found)
    if type(existing) is not type(table):
        return table
    type(existing).__init__(existing, table)
    return existing


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
    if not found["alone"]:
        return table
    column = table.iloc[:, 0]
    return column.rename(found["name"])


def _column_parts(column: Any) -> dict[str, Any] | None:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in NUMBERS:
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
    same = one.equals(other) and one.index.names == other.index.names
    if hasattr(one, "columns"):
        return bool(same and one.columns.equals(other.columns))
    return bool(same and one.name == other.name)
