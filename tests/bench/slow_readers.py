"""How long a scrape takes beside slow readers, and how many threads they cost.

``make bench-slow-readers``, or ``python -m tests.bench.slow_readers [--seconds 20]``

An exporter in a process of its own shows 64 runs. 1,000 connections send it a byte of a
request now and then, as anybody on a machine could; whoever is put out comes again at the
next turn (``--eager``: at once). Two scrapers are beside them, one that keeps its
connection as Prometheus does, and one that makes a new one each time. They are measured
without the slow readers, with them, and without them again.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import contextlib
import os
import random
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPException

import psutil

from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.metrics_server import MetricsServer
from tests.bench.exporter_alone import statuses
from tests.support.scraped import Scraper, answers, quantile, until

TURN_SECONDS = 2.0
"""How often a slow reader does something, about."""
EVERY_SECONDS = 0.05
"""Between two scrapes."""
GOAL_SECONDS = 0.1


def serve() -> None:
    """An exporter and nothing else, until its standard input ends."""
    board = ExpositionCache()
    board.publish(list(statuses(64, [1], 0)))
    with MetricsServer(Address("127.0.0.1", 0), board.read) as server:
        print(server.address.port, flush=True)
        sys.stdin.read()


@contextmanager
def served() -> Generator[tuple[psutil.Process, int]]:
    """``serve`` in a process of its own, and its port."""
    command = [sys.executable, "-m", "tests.bench.slow_readers", "--serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield psutil.Process(process.pid), int(process.stdout.readline())
        process.communicate()


class SlowReaders:
    """So many connections that never come to the end of a request."""

    def __init__(self, port: int, *, count: int, eager: bool) -> None:
        self.connects = 0
        self._port = port
        self._eager = eager
        self._selector = selectors.DefaultSelector()
        self._turns = {n: random.random() * TURN_SECONDS for n in range(count)}  # noqa: S311
        self._open: dict[int, socket.socket] = {}

    def run(self, stopped: threading.Event) -> None:
        """Until stopped."""
        began = time.monotonic()
        while not stopped.is_set():
            for key, _ in self._selector.select(0.01):
                self._put_out(key.data)
            now = time.monotonic() - began
            for number, turn in self._turns.items():
                if turn <= now:
                    self._turns[number] = now + TURN_SECONDS
                    self._do_something(number)
        for number in tuple(self._open):
            self._leave(number)

    def _put_out(self, number: int) -> None:
        """Nothing is answered: what there is to read is the end."""
        self._leave(number)
        if self._eager:
            self._turns[number] = 0.0

    def _leave(self, number: int) -> None:
        connection = self._open.pop(number)
        self._selector.unregister(connection)
        connection.close()

    def _do_something(self, number: int) -> None:
        connection = self._open.get(number) or self._connect(number)
        with contextlib.suppress(OSError):  # still connecting, or put out already
            connection.send(b"G")

    def _connect(self, number: int) -> socket.socket:
        self.connects += 1
        connection = self._open[number] = socket.socket()
        connection.setblocking(False)  # noqa: FBT003  # the library's
        with contextlib.suppress(BlockingIOError):
            connection.connect(("127.0.0.1", self._port))
        self._selector.register(connection, selectors.EVENT_READ, number)
        return connection


@contextmanager
def crowd(port: int, *, count: int, eager: bool) -> Generator[None]:
    """``SlowReaders`` in a process of their own; says how often they connected."""
    command = [
        *(sys.executable, "-m", "tests.bench.slow_readers", "--crowd", str(port)),
        *("--readers", str(count), *(["--eager"] if eager else [])),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield
        process.communicate()


def be_a_crowd(readers: SlowReaders, count: int) -> None:
    """Until standard input ends."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 100, hard), hard))
    stopped = threading.Event()
    thread = threading.Thread(target=readers.run, args=(stopped,))
    began = time.monotonic()
    thread.start()
    sys.stdin.read()
    stopped.set()
    thread.join()
    rate = readers.connects / (time.monotonic() - began)
    print(f"  {count} slow readers connected {rate:.0f} times a second")


class Measured:
    """What two scrapers see of one server, one phase after the other."""

    def __init__(self, server: psutil.Process, port: int, *, seconds: float) -> None:
        self._server = server
        self._port = port
        self._seconds = seconds
        self._keeps = Scraper(port)

    def phase(self, name: str) -> None:
        """Scrape for a while; print times, failures, threads and processor time."""
        times: dict[str, list[float]] = {"kept": [], "new": []}
        failed = threads = 0
        used, began = self._processor_seconds(), time.monotonic()
        while time.monotonic() - began < self._seconds:
            for kind, scraper in (("kept", self._keeps), ("new", Scraper(self._port))):
                try:
                    times[kind].append(scraper.scrape()[0])
                except (OSError, HTTPException):
                    failed += 1
            threads = max(threads, self._server.num_threads())
            time.sleep(EVERY_SECONDS)
        cpu = (self._processor_seconds() - used) / (time.monotonic() - began)
        print(
            f"{name}: {failed} failed, {threads} threads at most, {cpu:.0%} of a core"
        )
        for kind, took in times.items():
            p99 = quantile(took, 0.99)
            print(
                f"  {kind:5} p50 {1e3 * statistics.median(took):7.2f} ms"
                f"   p99 {1e3 * p99:7.2f}   max {1e3 * max(took):7.2f}"
                f"   of {len(took)}   {'met' if p99 <= GOAL_SECONDS else 'MISSED'}"
            )

    def _processor_seconds(self) -> float:
        times = self._server.cpu_times()
        return times.user + times.system


def main() -> None:
    """Without, with, without."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--crowd", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    elif given.crowd:
        readers = SlowReaders(given.crowd, count=given.readers, eager=given.eager)
        be_a_crowd(readers, given.readers)
    else:
        print(f"load of the machine before: {os.getloadavg()[0]:.1f}", flush=True)
        with served() as (server, port):
            until(lambda: answers(port))
            measured = Measured(server, port, seconds=given.seconds)
            measured.phase("without slow readers")
            with crowd(port, count=given.readers, eager=given.eager):
                time.sleep(TURN_SECONDS + 1.0)  # all have come
                measured.phase("with slow readers")
            measured.phase("without them again")


if __name__ == "__main__":
    main()
