"""What a snapshot tells of the computation that it is of."""

from dataclasses import replace
from pathlib import Path

from tests.support.attempts import Attempts
from trainers.snapshots.resume_proof import computation_of

OF_BEFORE = "3d54aa812aa2ec00b89249dfe8d44193"
"""As it was before there was a table ``[compute]``."""


def test_another_way_to_compute_is_another_computation(tmp_path: Path) -> None:
    """Where nothing is asked for, snapshots of before there was a choice still match."""
    plain = Attempts(tmp_path).directive(tmp_path / "train.py")
    changed = [
        replace(plain, jit=True),
        replace(plain, jit=False),
        replace(plain, recompute=True),
        replace(plain, precision="mixed_bfloat16"),
    ]
    assert computation_of(plain) == OF_BEFORE
    assert len({computation_of(one) for one in [plain, *changed]}) == 5
