"""The simulation of a group of workers: its parts add up, and its limits are known."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.workers import DAY, HOUR, WorkerFigures, simulated

ONE = WorkerFigures(
    restart=20.0, restart_q3=25.0, between_failures=HOUR, interval=60.0, copy=0.5
)


def test_one_worker_is_as_was_measured() -> None:
    """The median and the upper quartile are those of the figures."""
    assert ONE.restart_of_group(1, lambda: 0.5) == pytest.approx(20.0)
    assert ONE.restart_of_group(1, lambda: 0.75) == pytest.approx(25.0, rel=1e-3)


@given(st.integers(1, 1000), st.floats(0.0, 1.0, exclude_max=True))
def test_more_workers_are_never_back_sooner(workers: int, drawn: float) -> None:
    """The longest of more is no shorter."""
    few = ONE.restart_of_group(workers, lambda: drawn)
    many = ONE.restart_of_group(workers + 1, lambda: drawn)
    assert 0.0 < few <= many * (1 + 1e-9)
    alike = replace(ONE, restart_q3=20.0)
    assert alike.restart_of_group(workers, lambda: drawn) == pytest.approx(20.0)


@given(st.integers(1, 500), st.integers(0, 100))
def test_all_time_is_accounted_for(workers: int, seed: int) -> None:
    """Kept, done again, restarting, or stopped for a snapshot: nothing else."""
    rng = random.Random(seed)
    found = simulated(ONE, workers=workers, seconds=DAY, rng=rng)
    kept = found.goodput * DAY
    copies = DAY - kept - found.lost - math.fsum(found.restarts)
    share = ONE.copy / ONE.interval
    assert -1e-3 <= copies <= share * DAY + ONE.copy * (found.failures + 1)
    assert 0.0 <= found.goodput <= 1.0


def test_who_never_fails_loses_what_snapshots_take() -> None:
    """And nothing more."""
    steady = replace(ONE, between_failures=1e18)
    found = simulated(steady, workers=8, seconds=DAY, rng=random.Random(1))
    assert found.failures == 0
    assert found.goodput == pytest.approx(60.0 / 60.5, rel=1e-3)
