"""Real failures of allocation, each kind told as what it is."""

from pathlib import Path

import pytest

from tests.support.oom import check, ran_out
from tests.support.samples import sampled


@pytest.mark.parametrize(
    "kind", sampled(["capacity", "fragmentation", "oversize"], "fragmentation")
)
def test_each_kind_is_told(tmp_path: Path, kind: str) -> None:
    """The figures agree with the verdict, and the paragraph says who held what."""
    check(ran_out(tmp_path, kind, jit=False), kind, jit=False)
