"""TOML that is written is read again as it was."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.toml_text import toml, toml_tables

plain = st.text(max_size=8) | st.integers(-(2**40), 2**40) | st.booleans()
values = plain | st.lists(plain, max_size=3)
tables = st.dictionaries(st.text(max_size=6), values, max_size=3)
documents = st.dictionaries(st.text(max_size=6), values | tables, max_size=4)


@given(documents)
def test_what_is_written_is_read_again(value: dict[str, object]) -> None:
    """In one line a key, and with a heading for each table."""
    assert tomllib.loads(toml(value)) == value
    assert tomllib.loads(toml_tables(value)) == value


def test_it_looks_as_people_write_it() -> None:
    """Keys bare where they may be, tables apart; None left out."""
    value = {"script": "a.py", "x": None, "memory": {"cpu": "1GiB"}, "a b": {"c": 1}}
    assert toml_tables(value) == (
        'script = "a.py"\n\n[memory]\ncpu = "1GiB"\n\n["a b"]\nc = 1\n'
    )
