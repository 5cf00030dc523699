"""200 queued jobs and 8 GPUs: how long `status` takes, and what the daemon costs.

Run as ``make bench-queue``. The GPUs are names; the jobs sleep.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from supervisor.host.control.control_client import Client
from tests.support.boxes import BoxUnderTest, box_in, until

JOBS, GPUS, LOOKS = 200, 8, 50
SLEEP = "import time; time.sleep(600)\n"
MOST_SECONDS = 0.1


def submit_all(client: Client, box: BoxUnderTest) -> None:
    """Hand in jobs that hold a GPU for ever."""
    script = box.script(SLEEP)
    for number in range(JOBS):
        spec = {
            "script": str(script),
            "name": f"job-{number}",
            "working_directory": str(box.directory),
            "gpu_count": 1,
            "priority": number % 3,
            "snapshots": {"memory": "off"},
        }
        client.post("/v1/jobs", {"spec": spec})


def held(box: dict[str, Any]) -> list[str]:
    """GPUs of running jobs, with repetitions if there are any."""
    return [gpu for job in box["jobs"] for gpu in job["gpus"]]


def seconds(client: Client) -> list[float]:
    """How long each of many looks took."""
    found: list[float] = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        client.get("/v1/status")
        found.append(time.perf_counter() - began)
        time.sleep(0.02)
    return found


def proportional_bytes(pid: int) -> int:
    """PSS of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024


def measure(box: BoxUnderTest) -> dict[str, Any]:
    """All figures."""
    names = ", ".join(f'"GPU-{number}"' for number in range(GPUS))
    box.config = f"[gpus]\nuse = [{names}]\n"
    daemon = box.begin()
    client = box.client
    submit_all(client, box)
    until(lambda: len(held(client.get("/v1/status"))) == GPUS)
    gpus = held(client.get("/v1/status"))
    looks = seconds(client)
    return {
        "jobs": JOBS,
        "gpus_held": len(gpus),
        "gpus_held_twice": len(gpus) - len(set(gpus)),
        "status_seconds_median": round(statistics.median(looks), 4),
        "status_seconds_worst": round(max(looks), 4),
        "daemon_pss_mib": round(proportional_bytes(daemon.pid) / 2**20, 1),
    }


def main() -> int:
    """Print the figures; 1 if a status took too long."""
    with tempfile.TemporaryDirectory() as directory, box_in(Path(directory)) as box:
        figures = measure(box)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    slow = figures["status_seconds_median"] > MOST_SECONDS
    return int(slow or figures["gpus_held_twice"] > 0)


if __name__ == "__main__":
    sys.exit(main())
