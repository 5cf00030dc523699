"""A daemon without systemd: everything that can be killed, alone and two at a time.

Under systemd: tests/operations/box_kills.py.
"""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.boxes import BoxUnderTest, box_in, until
from tests.support.fake_nvml import FakeNvml

KINDS = ("training", "shim", "probe", "daemon")
FATAL = frozenset({"training", "shim"})
"""Whose end is the end of an attempt."""
ALL = [*itertools.combinations(KINDS, 1), *itertools.combinations(KINDS, 2)]
SAMPLE = [("probe",), ("training", "daemon")]
STEPS = """
import pathlib, sys, time
path = pathlib.Path(sys.argv[1])
done = len(path.read_text().split()) if path.exists() else 0
with path.open("a") as file:
    while True:
        file.write(f"{done}\\n"); file.flush()
        done += 1
        time.sleep(0.05)
"""


@pytest.fixture
def nvml(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two healthy GPUs, seen by every process that is started."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(2)
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML"):
        monkeypatch.setenv(name, fake.environment[name])
    return fake


@pytest.fixture
def box(nvml: FakeNvml, tmp_path: Path) -> Iterator[BoxUnderTest]:
    """A daemon's place, on a machine with GPUs."""
    del nvml
    with box_in(tmp_path) as made:
        made.config = '[metrics]\nlisten = "off"\n'
        yield made


def probes(box: BoxUnderTest) -> list[int]:
    """The probes of the newest daemon."""
    return [
        child.pid
        for child in psutil.Process(box.daemons[-1].pid).children()
        if child.status() != psutil.STATUS_ZOMBIE
        and "supervisor.host.gpu.probe_main" in child.cmdline()
    ]


def gpus(box: BoxUnderTest) -> dict[str, Any]:
    """What the daemon says of the GPUs."""
    found: dict[str, Any] = box.client.get("/v1/gpus")
    return found


def pids_of(box: BoxUnderTest, training: int) -> dict[str, int]:
    """Who can be killed."""
    (probe,) = probes(box)
    return {
        "training": training,
        "shim": psutil.Process(training).ppid(),
        "probe": probe,
        "daemon": box.daemons[-1].pid,
    }


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(victims, marks=() if victims in SAMPLE else pytest.mark.slow)
        for victims in ALL
    ],
    ids=map("-".join, ALL),
)
def test_kills(box: BoxUnderTest, nvml: FakeNvml, victims: tuple[str, ...]) -> None:
    """An attempt that ended is one incident, and the job goes on in the next; else the
    same process trains on without one. The GPUs are watched again, and nobody is left."""
    box.begin()
    until(lambda: gpus(box)["answers"])
    steps = box.directory / "steps"
    box.do("submit", box.script(STEPS), str(steps))
    before = box.until(lambda job: job["state"] == "running" and steps.exists())
    pids = pids_of(box, before["pid"])
    for name in victims:
        os.kill(pids[name], signal.SIGKILL)
    if "daemon" in victims:
        box.daemons[-1].communicate()
        box.begin()
    ended = bool(FATAL.intersection(victims))
    wanted = 2 if ended else 1
    after = box.until(lambda job: (job["state"], job["attempt"]) == ("running", wanted))
    assert (after["pid"] == before["pid"]) is not ended
    assert [incident["attempt"] for incident in box.json("incidents")] == [1] * ended
    nvml.set({"1.temperature": 33})
    until(lambda: gpus(box)["gpus"][1:] and temperature(box) == 33)
    assert len(probes(box)) == 1
    # That of a daemon that was killed ends when it next has something to say.
    until(lambda: not psutil.pid_exists(pids["probe"]) or pids["probe"] in probes(box))
    box.do("stop", "train")
    box.until(lambda job: job["state"] in {"drained", "finished"})
    done = [int(word) for word in steps.read_text().split()]
    assert done == list(range(len(done)))


@pytest.mark.parametrize("watched", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_xid_that_no_daemon_heard(
    box: BoxUnderTest, nvml: FakeNvml, tmp_path: Path, *, watched: bool
) -> None:
    """The service that keeps the probe remembers it: the attempt that ends under the
    next daemon, or before there is one, is told apart from one that crashed by itself."""
    path = tmp_path / "probe.sock"
    service = subprocess.Popen(
        [sys.executable, "-m", "supervisor.host.gpu.probe_service", str(path), "0.1"],
        env=nvml.environment,
    )
    try:
        box.config = f'[gpus]\nprobe = "{path}"\n'
        daemon = box.begin()
        until(lambda: gpus(box)["answers"])
        box.do("submit", "--gpu-count", "1", box.script(STEPS), str(tmp_path / "steps"))
        before = box.until(lambda job: job["state"] == "running")
        box.end(daemon, signal.SIGKILL)
        nvml.xid(0, 79)
        assert before["gpus"] == ["GPU-00000000-fake"]
        if not watched:
            os.kill(before["pid"], signal.SIGSEGV)
            until(lambda: not psutil.pid_exists(before["pid"]))
        box.begin()
        until(lambda: gpus(box)["gpus"] and gpus(box)["gpus"][0]["last_xid"] == 79)
        if watched:
            os.kill(before["pid"], signal.SIGSEGV)
        until(lambda: box.json("incidents"))
        (incident,) = box.json("incidents")
        assert (incident["attempt"], incident["cause"]) == (1, "gpu_hardware")
    finally:
        service.kill()
        service.wait()


@pytest.mark.slow
def test_a_job_moves_to_another_gpu(
    box: BoxUnderTest, nvml: FakeNvml, tmp_path: Path
) -> None:
    """One whose only GPU fails gets another one; when there is none, it waits for one,
    over a restart of the daemon as well."""
    daemon = box.begin()
    until(lambda: gpus(box)["answers"])
    box.do("submit", "--gpu-count", "1", box.script(STEPS), str(tmp_path / "steps"))
    for index, name in enumerate(("GPU-00000000-fake", "GPU-00000001-fake")):
        fail_under(box, nvml, index, name)
    waits = box.until(lambda job: job["state"] == "queued")
    assert waits["message"] == "wants 1 GPUs, 0 are in service"
    box.end(daemon, signal.SIGTERM)
    box.begin()
    box.until(lambda job: job["state"] == "queued")
    box.do("quarantine", "--return", "GPU-00000001-fake")
    third = box.until(lambda job: job["state"] == "running")
    assert (third["attempt"], third["gpus"]) == (3, ["GPU-00000001-fake"])
    causes = [incident["cause"] for incident in box.json("incidents")]
    assert causes == ["gpu_hardware", "gpu_hardware"]


def fail_under(box: BoxUnderTest, nvml: FakeNvml, index: int, name: str) -> None:
    """GPU ``index`` falls off the bus under the attempt that has it."""
    wanted = ("running", index + 1)
    job = box.until(lambda job: (job["state"], job["attempt"]) == wanted)
    assert job["gpus"] == [name]
    nvml.xid(index, 79)
    until(lambda: last_xids(box).count(79) > index)
    os.kill(job["pid"], signal.SIGSEGV)
    until(lambda: len(box.json("incidents")) > index)


def last_xids(box: BoxUnderTest) -> list[int | None]:
    """Of each GPU."""
    return [gpu["last_xid"] for gpu in gpus(box)["gpus"]]


def temperature(box: BoxUnderTest) -> float | None:
    """Of the second GPU."""
    found: float | None = gpus(box)["gpus"][1]["temperature_celsius"]
    return found
