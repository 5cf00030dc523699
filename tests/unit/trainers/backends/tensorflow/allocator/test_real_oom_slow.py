"""Real failures of allocation in steps that XLA compiled, each kind told."""

from pathlib import Path

import pytest

from tests.support.oom import check, ran_out

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["capacity", "fragmentation", "oversize"])
def test_each_kind_is_told_with_jit(tmp_path: Path, kind: str) -> None:
    """XLA's requests are told as TensorFlow's are."""
    check(ran_out(tmp_path, kind, jit=True), kind, jit=True)
