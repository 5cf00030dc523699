"""What a daemon remembers after many attempts: nothing that grows with their number.

Two hundred here; ``make bench-daemon-memory`` lets 10,000 pass, and measures PSS.
"""

import gc
import multiprocessing
import time
import weakref
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from supervisor.core.jobs.job_status import JobState
from supervisor.host.exporter.exposition_cache import Form
from tests.support.long_life import ENDLESS, SHORT, LongLife, long_life
from tests.support.metrics import series_remembered

WARM, MORE = 40, 160
NOISE = 25
"""Objects that come and go with caches of the interpreter."""


def held(life: LongLife, attempts: int) -> tuple[int, int]:
    """Objects that live after so many attempts, and series that the exporter knows."""
    life.live(attempts)
    board = life.daemon.observer.board
    assert board is not None
    board.read(Form())
    return tracked(), series_remembered(board, Form())


def settled(life: LongLife, attempts: int) -> tuple[int, int]:
    """Twice the same: a first look at the machine may be under way, or not have begun."""
    counted, before = held(life, attempts), None
    while counted != before:
        time.sleep(0.5)
        counted, before = held(life, attempts), counted
    return counted


def tracked() -> int:
    """Objects that the collector follows. A tuple of what it need not follow is left
    out by one collection, a tuple of such tuples by the next."""
    before, found = -1, 0
    while found != before:
        gc.collect()
        before = found
        found = sum(not isinstance(o, weakref.ReferenceType) for o in gc.get_objects())
    return found


def kinds() -> Counter[str]:
    """Objects by the names of their classes."""
    return Counter(type(one).__qualname__ for one in gc.get_objects())


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What became more from ``WARM`` attempts on."""

    attempts: int
    """Of the run that goes on."""
    objects: int
    series: int
    kinds: tuple[tuple[str, int], ...]
    """Of which there are more, most first: for who has to find out why."""


def grown(directory: Path) -> Grown:
    """In a process that has done nothing else: other tests leave threads and caches."""
    with long_life(directory) as life:
        endless = life.daemon.scheduler.entries[ENDLESS]
        objects, series = settled(life, WARM)
        before = kinds()
        attempts = endless.status().attempt
        objects_after, series_after = settled(life, WARM + MORE)
        runs = [life.daemon.api.ledger.latest_run(name) for name in SHORT]
        assert endless.status().state is not JobState.GAVE_UP
        assert all(run is not None and run.number > 1 for run in runs)
        assert series > 0
        return Grown(
            attempts=endless.status().attempt - attempts,
            objects=objects_after - objects,
            series=series_after - series,
            kinds=tuple((kinds() - before).most_common(9)),
        )


@pytest.mark.slow
def test_hundreds_of_attempts_leave_little_behind(tmp_path: Path) -> None:
    """Of a run that goes on, one object an attempt, until they are thinned out; of runs
    that ended, and of series, nothing."""
    alone = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=alone) as pool:
        found = pool.submit(grown, tmp_path).result()
    assert found.attempts > MORE // 8
    assert found.objects < found.attempts + NOISE, found
    assert found.series == 0
