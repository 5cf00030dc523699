"""The C library's search: it says what Python's own says."""

import ctypes
from operator import contains

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.diagnosis.log_scanner import SIGNS
from supervisor.host.telemetry.text_search import holds, native_search

few = st.sampled_from([b"a", b"b", b"\0", b"rror: ", b"ut of memory"])


@given(block=st.lists(few).map(b"".join), text=st.lists(few).map(b"".join))
def test_it_agrees_with_python(block: bytes, text: bytes) -> None:
    """Whatever the bytes, the empty text and NUL among them."""
    assert holds(block, text) == (text in block)


@pytest.mark.parametrize("sign", SIGNS, ids=repr)
def test_it_is_found_wherever_it_stands(sign: bytes) -> None:
    """At the start, at the end, and cut off."""
    around = bytes(range(256)) * 40
    assert holds(sign + around, sign)
    assert holds(around + sign, sign)
    assert not holds(around + sign[:-1], sign)


def test_a_c_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then Python searches."""
    assert native_search() is not contains

    def none(_name: str | None) -> object:
        return object()

    monkeypatch.setattr(ctypes, "PyDLL", none)
    assert native_search() is contains
