"""What the exporter and the GPU probe cost, beside nvitop-exporter on the same library.

``make bench-exporter``, or ``python -m tests.bench.exporter [--seconds 60]``

The GPUs are eight of NVML's double (``tests/support/fake_nvml.py``): the cost of a real
driver comes on top, for both. Three measurements, one after the other:

- 64 jobs and 8 GPUs: how long a scrape takes, and how late the loop that publishes once
  a second gets to run (a thread that wants to run every 5 ms notes how late it is). A
  process that does nothing else notes the same: what it sees is the machine's doing.
- 8 jobs (real processes) and 8 GPUs at 1 Hz, scraped once a second: memory (PSS) and
  processor time of the probe, of a process that holds the exporter and nothing else, and
  of nvitop-exporter at the same time.
- The same of a daemon that supervises 8 real trainings (``exporter_trial``).
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.bench.exporter_trial import report_daemon
from tests.support.fake_nvml import FakeNvml, build
from tests.support.scraped import (
    Scraper,
    answers,
    nvitop,
    quantile,
    report_uses,
    until,
)

GPUS = 8
LATE_EVERY = 0.005
SCRAPES = 400


@contextmanager
def idle() -> Generator[subprocess.Popen[str]]:
    """A process that only notes how late it gets to run."""
    command = [sys.executable, "-m", "tests.bench.exporter_alone", "--idle"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        if process.poll() is None:
            process.communicate()


@contextmanager
def exporter(
    jobs: int, pids: list[int], nvml: FakeNvml, *, watch: bool
) -> Generator[tuple[subprocess.Popen[str], int]]:
    """``exporter_alone``; yields it and its port."""
    command = [
        *(sys.executable, "-m", "tests.bench.exporter_alone", "--export", str(jobs)),
        *("--pids", ",".join(map(str, pids))),
        *(["--watch"] if watch else []),
    ]
    with subprocess.Popen(
        command,
        env=nvml.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["port"]
        if process.poll() is None:
            process.communicate()


def report_scrapes(nvml: FakeNvml, pids: list[int], *, jobs: int) -> None:
    """Scrape time and lateness of the loop."""
    with idle() as bare, exporter(jobs, pids, nvml, watch=True) as (process, port):
        until(lambda: answers(port))
        time.sleep(3.0)
        times, size, scraper = [], 0, Scraper(port)
        for _ in range(SCRAPES):
            took, size = scraper.scrape()
            times.append(took)
            time.sleep(0.05)
        told, _ = process.communicate()
        told_idle, _ = bare.communicate()
    found = json.loads(told)
    late, shows = found["late"], found["shows"]
    print(f"\n{jobs} jobs, {GPUS} GPUs; {SCRAPES} scrapes of {size} bytes, ms")
    print(f"  scrape   p50 {1e3 * statistics.median(times):6.2f}", end="")
    print(f"   p99 {1e3 * quantile(times, 0.99):6.2f}   max {1e3 * max(times):6.2f}")
    print(f"  publish  p50 {1e3 * statistics.median(shows):6.2f}", end="")
    print(f"   max {1e3 * max(shows):6.2f}")
    for name, turns in (("loop", late), ("idle", json.loads(told_idle))):
        print(f"  {name} late p99 {1e3 * quantile(turns, 0.99):6.2f}", end="")
        print(f"   p99.9 {1e3 * quantile(turns, 0.999):6.2f}", end="")
        print(f"   max {1e3 * max(turns):6.2f}   of {len(turns)} turns")


def report_use(nvml: FakeNvml, pids: list[int], *, seconds: float) -> None:
    """Memory and processor time of all three, at the same time."""
    with (
        exporter(len(pids), pids, nvml, watch=False) as (ours, port),
        nvitop(nvml) as (theirs, their_port),
    ):
        until(lambda: answers(port) and answers(their_port))
        us = psutil.Process(ours.pid)
        (probe,) = us.children()
        watched = {"probe": probe, "exporter": us}
        watched["nvitop-exporter"] = psutil.Process(theirs.pid)
        print(f"\n{len(pids)} jobs that only sleep, {GPUS} GPUs, an exporter alone")
        report_uses(
            watched, {"ours": port, "nvitop-exporter": their_port}, seconds=seconds
        )


@contextmanager
def processes(count: int) -> Generator[list[int]]:
    """So many real processes that do nothing; their pids."""
    started = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        for _ in range(count)
    ]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    """All three measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=64)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, processes(8) as pids:
        nvml = FakeNvml(build(Path(directory)), Path(directory, "script"))
        nvml.gpus(GPUS)
        nvml.set(
            {
                f"{i}.processes": f"{pid}:{2**30}:4294967295"
                for i, pid in enumerate(pids)
            }
        )
        print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
        report_scrapes(nvml, pids, jobs=given.jobs)
        report_use(nvml, pids, seconds=given.seconds)
        report_daemon(nvml, Path(directory), jobs=8, seconds=given.seconds)


if __name__ == "__main__":
    main()
