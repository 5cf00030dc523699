"""Who is scraped by a bench, how long that takes, and what serving costs."""

# ruff: noqa: T201  # printing is the job

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

from tests.support.fake_nvml import FakeNvml
from tests.support.gauge import Gauge, gauging

ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
READY_SECONDS = 180.0


@contextmanager
def nvitop(nvml: FakeNvml) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """nvitop-exporter on the same library, at 1 Hz."""
    program = Path(sys.executable).with_name("nvitop-exporter")
    if not program.exists():
        sys.exit("nvitop-exporter is not installed: make bench-exporter installs it")
    port = 19_481
    command = [str(program), "--port", str(port), "--interval", "1"]
    process = subprocess.Popen(
        command,
        env=nvml.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait(30)


class Scraper:
    """Scrapes one address again and again, as Prometheus does: compressed if that is
    offered, and on one connection, where that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def scrape(self) -> tuple[float, int]:
        """How long it takes, in seconds, and the size of the answer, as it was sent.

        Raises OSError, HTTPException.
        """
        began = time.monotonic()
        headers = {"Accept": ACCEPT, "Accept-Encoding": "gzip"}
        try:
            self._connection.request("GET", "/metrics", headers=headers)
            size = len(self._connection.getresponse().read())
        except (OSError, HTTPException):
            self._connection.close()
            raise
        return time.monotonic() - began, size


def until(ready: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + READY_SECONDS
    while not ready():
        if time.monotonic() > ends:
            sys.exit("it did not get ready")
        time.sleep(0.1)


def answers(port: int) -> bool:
    """Whether somebody serves there with something to say."""
    try:
        return Scraper(port).scrape()[1] > 1000
    except OSError:
        return False


def quantile(values: list[float], part: float) -> float:
    """The value below which ``part`` of them lie."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


@dataclass
class Use:
    """Processor time so far, and memory now."""

    cpu: float
    pss: int

    @classmethod
    def of(cls, process: psutil.Process) -> "Use":
        """Of one process."""
        times = process.cpu_times()
        return cls(times.user + times.system, process.memory_full_info().pss)


def report_uses(
    watched: Mapping[str, psutil.Process], ports: Mapping[str, int], *, seconds: float
) -> None:
    """Scrape ``ports`` once a second for so long, and print what ``watched`` used, and
    how much dearer than in a loop the work of a gauge was at the same time."""
    with gauging() as gauge:
        _report_uses({**watched, "gauge": gauge.process}, ports, gauge, seconds=seconds)


def _report_uses(
    watched: Mapping[str, psutil.Process],
    ports: Mapping[str, int],
    gauge: Gauge,
    *,
    seconds: float,
) -> None:
    time.sleep(5.0)  # what is done once is over
    before = {name: Use.of(process) for name, process in watched.items()}
    began = time.monotonic()
    scrapers = {name: Scraper(port) for name, port in ports.items()}
    times: dict[str, list[float]] = {name: [] for name in ports}
    while time.monotonic() - began < seconds:
        for name, scraper in scrapers.items():
            times[name].append(scraper.scrape()[0])
        time.sleep(1.0)
    passed = time.monotonic() - began
    print(f"  1 Hz, scraped at 1 Hz for {passed:.0f} s")
    for name, process in watched.items():
        use = Use.of(process)
        part = (use.cpu - before[name].cpu) / passed
        print(
            f"  {name:16} PSS {use.pss / 2**20:5.1f} MiB   CPU {part:6.2%} of a core",
            end="",
        )
        dearer = part / gauge.warm_seconds
        print(f"   {dearer:.1f} times a loop's" if process == gauge.process else "")
    for name, scraper in scrapers.items():
        p99 = 1e3 * quantile(times[name], 0.99)
        print(f"  scrape of {name:16} p99 {p99:6.2f} ms, {scraper.scrape()[1]} bytes")
