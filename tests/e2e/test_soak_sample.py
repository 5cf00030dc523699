"""A short soak; the long one is ``make soak``."""

import os
from pathlib import Path

import pytest

from tests.chaos.machine import CannotError
from tests.soak.soak import prepared

SECONDS = 8.0
GAP_SECONDS = (0.5, 2.0)
JOBS = 2


def test_all_jobs_end_and_end_to_the_bit(tmp_path: Path) -> None:
    """Under kills, stops, a full disk and another time, drawn from one seed."""
    if os.geteuid():
        pytest.skip("a file system is mounted: that needs root")
    said: list[str] = []
    try:
        with prepared(tmp_path, 3, said.append, epochs=8) as soak:
            soak.most_jobs, soak.gap_seconds = JOBS, GAP_SECONDS
            soak.run(SECONDS)
    except CannotError as reason:
        pytest.skip(str(reason))
    assert soak.problems == [], "\n".join(said)
    assert soak.done.total() >= 2
    assert len(soak.jobs) == JOBS
