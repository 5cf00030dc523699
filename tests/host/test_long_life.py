"""What a daemon remembers after many attempts: nothing that grows with their number.

Two hundred here; ``make bench-daemon-memory`` lets 10,000 pass, and measures PSS.
"""

import gc
import weakref
from pathlib import Path

from supervisor.core.status import JobState
from supervisor.host.board import Form
from tests.support.long_life import ENDLESS, SHORT, LongLife, long_life

WARM, MORE = 40, 160
NOISE = 25
"""Objects that come and go with caches of the interpreter."""


def held(life: LongLife, attempts: int) -> tuple[int, int]:
    """Objects that live after so many attempts, and series that the exporter knows."""
    life.live(attempts)
    board = life.daemon.observer.board
    assert board is not None
    board.render(Form())
    gc.collect()
    found = gc.get_objects()
    objects = sum(not isinstance(one, weakref.ReferenceType) for one in found)
    return objects, board.remembered(Form())


def test_hundreds_of_attempts_leave_little_behind(tmp_path: Path) -> None:
    """Of a run that goes on, one object an attempt, until they are thinned out; of runs
    that ended, and of series, nothing."""
    with long_life(tmp_path) as life:
        endless = life.daemon.box.entries[ENDLESS]
        objects_before, series_before = held(life, WARM)
        attempts_before = endless.status().attempt
        objects_after, series_after = held(life, WARM + MORE)
        attempts = endless.status().attempt - attempts_before
        runs = [life.daemon.desk.ledger.latest_run(name) for name in SHORT]
        assert endless.status().state is not JobState.GAVE_UP
    assert attempts > MORE // 8
    assert all(run is not None and run.number > 1 for run in runs)
    assert objects_after - objects_before < attempts + NOISE
    assert series_after == series_before > 0
