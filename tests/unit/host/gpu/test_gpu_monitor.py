"""A real probe process, the real binding, and a library whose answers a test writes.

What holds as well for a probe that a service keeps: tests/conformance/test_gpu_sources.py.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.fake_nvml import GIB, FakeNvml
from tests.support.watched import DEADLINE_SECONDS, Watched, probes


@pytest.fixture
def watched(nvml: FakeNvml, kernel: Path) -> Iterator[Watched]:
    """A watch over two healthy GPUs."""
    made = Watched(nvml.environment, kernel)
    yield made
    made.watch.close()


def test_every_figure_arrives(watched: Watched, nvml: FakeNvml) -> None:
    """What the driver says of a device is what the view says, in base units."""
    nvml.set({"0.processes": "4711:1073741824:4294967295", "0.graphics": "4711:5:1"})
    watched.sampled()
    gpu = watched.gpu(0)
    assert (gpu.uuid, gpu.name, gpu.bus) == (
        "GPU-00000000-fake",
        "NVIDIA H200",
        "0000:30:00",
    )
    assert gpu.memory is not None
    assert (gpu.memory.total, gpu.memory.used) == (141 * GIB, 20 * GIB)
    assert (gpu.memory.reserved, gpu.memory.free) == (GIB, 120 * GIB)
    assert (gpu.utilization, gpu.temperature_celsius) == (0.97, 61)
    assert (gpu.power_watts, gpu.power_limit_watts) == (512.345, 700)
    assert gpu.throttled == frozenset({"power_cap"})
    assert gpu.ecc["aggregate", "uncorrected"] == 1
    assert gpu.rows is not None
    assert (gpu.rows.corrected, gpu.rows.uncorrected, gpu.rows.failed) == (1, 2, False)
    assert gpu.pcie_replays == 7
    assert gpu.pcie_lanes == (16, 16)
    assert [p.bytes for p in gpu.processes or () if p.pid == 4711] == [GIB, 5]
    assert gpu.problems == {}


def test_mig_devices(watched: Watched, nvml: FakeNvml) -> None:
    """A GPU cut into MIG devices names them, with what each has."""
    nvml.set({"1.mig": 1, "1.mig.2.uuid": "MIG-x", "1.mig.2.total": 10 * GIB})
    watched.sampled()
    (mig,) = watched.gpu(1).mig
    assert (mig.uuid, mig.instance, mig.compute_instance) == ("MIG-x", 3, 0)
    assert mig.memory is not None
    assert mig.memory.total == 10 * GIB


def test_what_a_device_lacks_is_no_problem(watched: Watched, nvml: FakeNvml) -> None:
    """A consumer card without ECC is healthy; a call that fails is told by name."""
    nvml.set({f"0.ecc.{span}.corrected": None for span in ("volatile", "aggregate")})
    nvml.set({"0.rows": None, "error.nvmlDeviceGetPowerUsage": 999})
    watched.sampled()
    gpu = watched.gpu(0)
    assert gpu.rows is None
    assert ("volatile", "corrected") not in gpu.ecc
    assert gpu.power_watts is None
    assert gpu.problems == {"nvmlDeviceGetPowerUsage": "Unknown Error"}


def test_what_nobody_heard_is_asked_of_the_journal(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel log may not be read, an Xid of the time between two probes comes
    from the journal; one from before the gap does not."""
    now = int(time.monotonic() * 1e6)
    lines = {
        1: "NVRM: Xid (PCI:0000:30:00): 13, before the gap",
        now + 3600 * 10**6: "NVRM: Xid (PCI:0000:31:00): 79, within it",
    }
    records = (
        json.dumps({"__MONOTONIC_TIMESTAMP": str(at), "MESSAGE": text})
        for at, text in lines.items()
    )
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\ncat <<'EOF'\n" + "\n".join(records) + "\nEOF\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    watched = Watched(nvml.environment, tmp_path / "none")
    try:
        watched.sampled()
        nvml.set({"hang.nvmlDeviceGetTemperature": 1})
        watched.until(lambda view: view.problem, "the probe is missed")
        nvml.set({"hang.nvmlDeviceGetTemperature": None})
        view = watched.until(lambda view: view.xids.xids, "the journal was asked")
        assert [(xid.code, xid.gpu) for xid in view.xids.xids] == [
            (79, "GPU-00000001-fake")
        ]
        assert not view.kernel_readable
    finally:
        watched.watch.close()


def test_no_nvml_here(tmp_path: Path) -> None:
    """Without the library nothing is said, and nothing runs."""
    empty = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    empty.pop("FAKE_NVML", None)
    watched = Watched(empty, tmp_path / "none")
    try:
        view = watched.until(
            lambda view: view.absent or view.sample, "the probe has looked"
        )
        if view.sample is not None:
            pytest.skip("this machine has GPUs")
        watched.until(lambda _: not probes(), "the probe has ended")
        assert watched.said == []
        assert view.problem
    finally:
        watched.watch.close()


def test_it_ends_with_its_watch(nvml: FakeNvml, kernel: Path) -> None:
    """After close there is no probe, and no thread."""
    watched = Watched(nvml.environment, kernel)
    watched.sampled()
    watched.watch.close()
    assert probes() == []
    assert "gpus" not in {thread.name for thread in threading.enumerate()}


def test_it_ends_with_its_parent(nvml: FakeNvml) -> None:
    """A supervisor that is killed leaves no probe behind, even one inside the driver."""
    nvml.set({"hang.nvmlDeviceGetTemperature": 1})
    script = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'supervisor.host.gpu.probe_main']\n"
        "child = subprocess.Popen(command, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = psutil.Popen(
        [sys.executable, "-c", script], stdout=-1, env=nvml.environment
    )
    with parent:
        child = psutil.Process(int(parent.stdout.readline()))
        ends = time.monotonic() + DEADLINE_SECONDS
        while str(nvml.library) not in Path(f"/proc/{child.pid}/maps").read_text():
            assert time.monotonic() < ends
            time.sleep(0.05)
        parent.kill()
    _, alive = psutil.wait_procs([child], timeout=DEADLINE_SECONDS)
    assert alive == []
