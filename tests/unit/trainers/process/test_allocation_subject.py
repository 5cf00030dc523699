"""What memory was asked for when it ran out: told as what it is, in real failures."""

from pathlib import Path

import pytest

from tests.support.oom import told_as_what_it_is

QUICK = ("optimizer", "arrays")


@pytest.mark.parametrize("kind", QUICK)
def test_what_ran_out_is_told(tmp_path: Path, kind: str) -> None:
    """By an exception, by one that Keras made of it, or by the stack of a crash: the
    cause is memory, never the script, and it is known what for."""
    told_as_what_it_is(tmp_path, kind)
