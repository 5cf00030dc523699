"""An exporter and nothing else: what ``tests.bench.exporter`` measures.

A module of its own, which imports what an exporter needs: its memory is looked at.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.exporter.metrics_server import MetricsServer
from supervisor.host.service.gc_freeze import settle
from tests.support.metrics import DIGITS

LATE_EVERY = 0.005


def statuses(jobs: int, pids: list[int], second: int) -> Iterator[JobStatus]:
    """So many runs, of which every figure changes that changes in a training."""
    for number in range(jobs):
        yield replace(
            DIGITS,
            job=f"job-{number:02d}",
            pid=pids[number % len(pids)],
            step=1000 + second,
            samples=64_000 + 64 * second,
            loss=1.0 / (2 + second + number),
            heartbeat_age_seconds=0.01 * (second % 10),
            step_seconds_sum=100.0 + second,
            step_counts=(0, 0, 0, 0, 3 + second, 11, 0, 0, 0, 0, 0, 1),
            memory_in_use_bytes=10**8 + second,
            host_rss_bytes=10**9 + second,
        )


@dataclass
class Lateness:
    """How late a thread gets to run that wants to run every 5 ms, in seconds."""

    worst: list[float]
    stopped: threading.Event

    def watch(self) -> None:
        """Until stopped."""
        while not self.stopped.is_set():
            began = time.monotonic()
            time.sleep(LATE_EVERY)
            self.worst.append(time.monotonic() - began - LATE_EVERY)


def exporting(jobs: int, pids: list[int], *, watch: bool) -> None:
    """What a supervisor does, and nothing else; ends when its standard input does."""
    board = ExpositionCache()
    observer = MachineMonitor(places={"state": Path("/")}, gpus=None, board=board)
    lateness = Lateness([], threading.Event())
    watcher = threading.Thread(target=lateness.watch)
    shows: list[float] = []
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    with MetricsServer(Address("127.0.0.1", 0), board.read) as server:
        observer.start()
        settle()
        print(json.dumps({"port": server.address.port}), flush=True)
        if watch:
            watcher.start()
        second = 0
        while not ended.wait(1.0):
            made = list(statuses(jobs, pids, second))
            began = time.monotonic()
            observer.show(made)
            shows.append(time.monotonic() - began)
            second += 1
        if watch:
            lateness.stopped.set()
            watcher.join()
        observer.close()
    print(json.dumps({"late": lateness.worst, "shows": shows}), flush=True)


def idling() -> None:
    """What ``idle`` does."""
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    lateness = Lateness([], ended)
    lateness.watch()
    print(json.dumps(lateness.worst))


def _await_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> None:
    """Export, or idle."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--export", type=int, help="so many jobs")
    parser.add_argument("--pids", help="theirs")
    parser.add_argument("--idle", action="store_true", help="only note lateness")
    parser.add_argument("--watch", action="store_true", help="note lateness too")
    given = parser.parse_args()
    if given.idle:
        idling()
        return
    pids = [int(pid) for pid in given.pids.split(",")]
    exporting(given.export, pids, watch=given.watch)


if __name__ == "__main__":
    main()
