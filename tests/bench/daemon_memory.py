"""10,000 attempts under one daemon: does its memory grow?

Run as ``make bench-daemon-memory``. The loop, the ledger, the files and the exporter are
the daemon's own; its clock is wound on instead of waited for, and its attempts end at
once. A quarter of them are those of one run that never ends.
"""

import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from supervisor.host.exporter.exposition_cache import Form
from tests.support.long_life import ENDLESS, LongLife, long_life
from tests.support.metrics import series_remembered

STAGES = (100, 1_000, 2_500, 5_000, 10_000)
MOST_GROWTH_MIB = 3.0
"""From 1,000 attempts to 10,000, the allocator's ups and downs included: PSS goes up and
down by some MiB (36.1, 39.5, 34.7, 36.5 were seen) while the objects stay the same."""


def proportional_mib() -> float:
    """Our PSS."""
    text = Path("/proc/self/smaps_rollup").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def measure(life: LongLife, attempts: int) -> dict[str, Any]:
    """The figures after so many attempts."""
    began = time.perf_counter()
    life.live(attempts)
    board = life.daemon.observer.board
    assert board is not None
    board.read(Form())
    gc.collect()
    return {
        "attempts": attempts,
        "pss_mib": round(proportional_mib(), 1),
        "objects": len(gc.get_objects()),
        "series": series_remembered(board, Form()),
        "attempts_of_the_endless_run": life.daemon.scheduler.entries[ENDLESS]
        .status()
        .attempt,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> int:
    """Print the figures; 1 if memory grew."""
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(dir=_fast()) as directory,
        long_life(Path(directory)) as life,
    ):
        for attempts in STAGES:
            found.append(measure(life, attempts))
            sys.stdout.write(json.dumps(found[-1]) + "\n")
            sys.stdout.flush()
    by_number = {one["attempts"]: one["pss_mib"] for one in found}
    return int(by_number[10_000] - by_number[1_000] > MOST_GROWTH_MIB)


def _fast() -> str | None:
    """Where writing costs nothing: the disk has no part in what is measured."""
    shared = Path("/dev/shm")  # noqa: S108  # not /tmp: it may be a disk
    return str(shared) if shared.is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
