"""What our own readers of ``/proc`` cost, against psutil for the same answer.

Run as ``make bench-processes``. Each row is asked in pairs, ours and psutil's in turn, and
tells the median of the pairs' ratios. Rule: what psutil answers is not written here; a
reader of our own needs its row, and to be on the path that every look takes.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from supervisor.host.process import proc_files
from supervisor.host.process.proc_files import read_kernel
from supervisor.host.process.process_tree import FRESH_SECONDS, ProcessTree

CHILDREN, ASKED, PAIRS = 8, 20, 31
ME = os.getpid()
LEAST_RATIO = 2.0
"""Less than that is not worth a reader of our own."""


@contextmanager
def children() -> Iterator[None]:
    """Some processes below this one."""
    sleep = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    started = [subprocess.Popen(sleep, stdin=subprocess.PIPE) for _ in range(CHILDREN)]
    try:
        yield
    finally:
        for child in started:
            child.communicate()


def psutil_stat() -> object:
    """What ``proc_files.stat`` tells, read together."""
    process = psutil.Process(ME)
    with process.oneshot():
        return (
            process.status(),
            process.ppid(),
            process.cpu_times(),
            process.num_threads(),
            process.create_time(),
            process.memory_info(),
        )


def our_tree() -> Callable[[], object]:
    """The processes below this one, counted anew each time."""
    population, now = ProcessTree(), 0.0

    def ask() -> object:
        nonlocal now
        now += FRESH_SECONDS
        return population.families({ME: None}, now=now)

    return ask


def seconds(ask: Callable[[], object]) -> float:
    """Processor time of one question."""
    began = time.process_time()
    for _ in range(ASKED):
        ask()
    return (time.process_time() - began) / ASKED


def compared(
    ours: Callable[[], object], theirs: Callable[[], object]
) -> dict[str, float]:
    """Medians of the pairs."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(PAIRS)]
    return {
        "ours_us": round(statistics.median(one for one, _ in pairs) * 1e6, 1),
        "psutil_us": round(statistics.median(two for _, two in pairs) * 1e6, 1),
        "psutil_to_ours": round(statistics.median(two / one for one, two in pairs), 1),
    }


def measure() -> dict[str, dict[str, float]]:
    """All rows."""
    process = psutil.Process
    with children():
        return {
            "one process (proc.stat)": compared(
                lambda: proc_files.stat(ME), psutil_stat
            ),
            "a tree (population)": compared(
                our_tree(), lambda: process(ME).children(recursive=True)
            ),
            "a name (proc.name_of)": compared(
                lambda: proc_files.name_of(ME), lambda: process(ME).name()
            ),
            "an environment (environments)": compared(
                lambda: read_kernel(f"/proc/{ME}/environ").split("\0"),
                lambda: process(ME).environ(),
            ),
        }


def main() -> int:
    """Print the figures; 1 if a reader of our own is not worth its lines."""
    rows = measure()
    sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    return int(any(row["psutil_to_ours"] < LEAST_RATIO for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
