"""10,000 queued jobs and 200 that run: what a request takes, and what the daemon costs.

Run as ``make bench-long-queue``. The GPUs are names; the jobs that run sleep.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor.host.control.control_client import Client
from tests.support.boxes import BoxUnderTest, box_in

LOOKS = 100
SLEEP = "import time; time.sleep(3600)\n"
MOST_SECONDS, MOST_RESTART_SECONDS, MOST_MIB = 0.1, 5.0, 100
START_SECONDS = 400.0


def submit(client: Client, box: BoxUnderTest, name: str) -> None:
    """Hand in a job that holds a GPU for ever."""
    spec = {
        "script": str(box.directory / "train.py"),
        "name": name,
        "working_directory": str(box.directory),
        "gpu_count": 1,
        "snapshots": {"memory": "off"},
    }
    client.post("/v1/jobs", {"spec": spec})


def running(client: Client) -> list[str]:
    """GPUs of running jobs, with repetitions if there are any."""
    jobs = client.get("/v1/status")["jobs"]
    return [gpu for job in jobs if job["pid"] for gpu in job["gpus"]]


def timed(do: Callable[[int], object], times: int = LOOKS) -> dict[str, float]:
    """How long it takes, in seconds: the median, and the 99th percentile."""
    found: list[float] = []
    for number in range(times):
        began = time.perf_counter()
        do(number)
        found.append(time.perf_counter() - began)
        time.sleep(0.02)
    p99 = statistics.quantiles(found, n=100, method="inclusive")[98]
    return {"median": round(statistics.median(found), 4), "p99": round(p99, 4)}


def memory_mib(pid: int) -> float:
    """RSS of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmRSS:"))
    return round(int(line.split()[1]) / 1024, 1)


def cpu_share(pid: int, seconds: float) -> float:
    """Of one core, while nobody asks for anything."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(seconds)
    return round((ticks() - before) / 100 / seconds, 3)


def measure(box: BoxUnderTest, *, queued: int, gpus: int) -> dict[str, Any]:
    """All figures."""
    names = ", ".join(f'"GPU-{number}"' for number in range(gpus))
    limits = ""
    box.config = f'{limits}[gpus]\nuse = [{names}]\n[metrics]\nlisten = "127.0.0.1:0"\n'
    box.script(SLEEP)
    daemon, client = box.begin(), box.client
    figures: dict[str, Any] = {"queued": queued, "running": gpus}
    began = time.perf_counter()
    for number in range(gpus + queued):
        submit(client, box, f"job-{number}")
    figures["submitted_per_second"] = round(
        (gpus + queued) / (time.perf_counter() - began)
    )
    deadline = time.monotonic() + START_SECONDS
    while len(running(client)) < gpus and time.monotonic() < deadline:
        time.sleep(1.0)
    held = running(client)
    figures |= {"gpus_held": len(held), "held_twice": len(held) - len(set(held))}
    figures["cpu_share"] = cpu_share(daemon.pid, 10.0)
    last = f"/v1/jobs/job-{gpus + queued - 1}"
    figures["status_of_one"] = timed(lambda _: client.get(last))
    figures["status_of_all"] = timed(lambda _: client.read("/v1/status"))
    figures["submit"] = timed(lambda number: submit(client, box, f"more-{number}"))
    figures["stop"] = timed(
        lambda number: client.post(f"/v1/jobs/more-{number}/stop", {"drain": False})
    )
    figures["daemon_mib"] = memory_mib(daemon.pid)
    box.end(daemon, signal.SIGKILL)
    began = time.perf_counter()
    daemon = box.begin()
    client.get("/v1/status")
    figures["restart_seconds"] = round(time.perf_counter() - began, 2)
    figures["daemon_mib_restarted"] = memory_mib(daemon.pid)
    figures["held_after"] = len(running(client))
    client.post("/v1/box/pause", {})
    box.end(daemon)
    return figures


def main() -> int:
    """Print the figures; 1 if one of them is too large."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--queued", type=int, default=10_000)
    arguments.add_argument("--running", type=int, default=200)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory, box_in(Path(directory)) as box:
        figures = measure(box, queued=asked.queued, gpus=asked.running)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    kinds = ("status_of_one", "status_of_all", "submit", "stop")
    bad = [
        figures["held_twice"] > 0,
        any(figures[kind]["p99"] > MOST_SECONDS for kind in kinds),
        figures["restart_seconds"] > MOST_RESTART_SECONDS,
        figures["daemon_mib"] > MOST_MIB,
    ]
    return int(any(bad))


if __name__ == "__main__":
    sys.exit(main())
