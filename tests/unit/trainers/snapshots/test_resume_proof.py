"""What a snapshot tells of the computation that it is of."""

from dataclasses import replace
from pathlib import Path

from tests.support.attempts import Attempts
from trainers.snapshots.resume_proof import computation_of

NOW = "5436c16c1564490b400def90b4c8dfcf"
"""Another one leaves the first proof after an upgrade out: state is written otherwise."""


def test_another_way_to_compute_is_another_computation(tmp_path: Path) -> None:
    """Where nothing is asked for it stays the same."""
    plain = Attempts(tmp_path).directive(tmp_path / "train.py")
    changed = [
        replace(plain, jit=True),
        replace(plain, jit=False),
        replace(plain, recompute=True),
        replace(plain, precision="mixed_bfloat16"),
    ]
    assert computation_of(plain) == NOW
    assert len({computation_of(one) for one in [plain, *changed]}) == 5
