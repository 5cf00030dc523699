"""TOML that is written is read again as it was."""

import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.toml_text import toml, toml_tables

WORDS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: Any = st.recursive(
    WORDS
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=5,  # more take long to draw, and say nothing new
)


@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_a_document_is_read_as_it_was_given(value: dict[str, Any]) -> None:
    """Whatever characters it has; in one line a key, and with a heading for each table."""
    assert tomllib.loads(toml(value)) == value
    assert tomllib.loads(toml_tables(value)) == value


def test_what_is_none_is_left_out() -> None:
    """As if it had not been given."""
    assert tomllib.loads(toml({"a": None, "b": {"c": None, "d": Path("x")}})) == {
        "b": {"d": "x"}
    }


def test_it_looks_as_people_write_it() -> None:
    """Keys bare where they may be, tables apart."""
    value = {"script": "a.py", "memory": {"cpu": "1GiB"}, "a b": {"c": 1}}
    assert toml_tables(value) == (
        'script = "a.py"\n\n[memory]\ncpu = "1GiB"\n\n["a b"]\nc = 1\n'
    )
    assert toml_tables({"a": {"b": 1}}) == "[a]\nb = 1\n"
