"""What Python costs here when it wakes up once a second.

Processors give such a process cold caches, and neighbours of a virtual machine more than
that: the same work may cost several times what it costs in a loop, and half as much an hour
later. So a bench that measures such processes has this one run beside them.
"""

# ruff: noqa: T201  # printing is how its parent is told

import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

ROWS = 2000
ROUNDS = 200


def work() -> str:
    """About a millisecond of an interpreter at work: objects, names, numbers, text."""
    rows = {f"row-{n}": (n, n / 7) for n in range(ROWS)}
    return "".join([f"{name} {n} {part:.6g}\n" for name, (n, part) in rows.items()])


def main() -> None:
    """Tell what the work costs in a loop (processor seconds), then do it once a second."""
    costs: list[float] = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        costs.append(time.thread_time() - began)
    print(json.dumps(sorted(costs)[ROUNDS // 2]), flush=True)
    while True:
        time.sleep(1.0)
        work()


@dataclass(frozen=True)
class Gauge:
    """One that runs."""

    process: psutil.Process
    warm_seconds: float
    """Of a processor, that the work takes in a loop."""


@contextmanager
def gauging() -> Generator[Gauge]:
    """In a process of its own."""
    command = [sys.executable, "-m", "tests.support.gauge"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            warm_seconds = float(json.loads(process.stdout.readline()))
            yield Gauge(psutil.Process(process.pid), warm_seconds)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
