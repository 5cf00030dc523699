"""A real run, its GPUs and its ``/metrics``, from outside."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.core.metrics.catalog import METRICS
from tests.support.command import PATIENCE, Trainwarden
from tests.support.fake_nvml import GIB, FakeNvml, build
from tests.support.freezer import frozen

SLEEPS = (
    "import pathlib, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "while not pathlib.Path('crash').exists(): time.sleep(0.05)\n"
    "import os; os.abort()\n"
)


ESTIMATES = (
    "import gc\n"
    "from trainers.process.attempt_reporting import Attempt\n"
    "(attempt,) = (one for one in gc.get_objects() if type(one) is Attempt)\n"
    "attempt.set(memory_source=3, memory_in_use_bytes=2**32, memory_peak_bytes=2**32)\n"
)
"""Counts of an allocator as TensorFlow gives them without its map."""


@pytest.fixture
def nvml(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> FakeNvml:
    """Two healthy GPUs, which everything that is started here sees."""
    where = tmp_path_factory.mktemp("nvml")
    fake = FakeNvml(build(where), where / "script")
    fake.gpus(2)
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)
    return fake


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Scraped:
    """What ``/metrics`` says, again and again."""

    def __init__(self, port: int) -> None:
        self.port = port

    def text(self) -> str:
        """A scrape; empty: nobody answers yet."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            body = answer.read().decode()
        except OSError:
            return ""
        else:
            return body if answer.status == 200 else ""
        finally:
            connection.close()

    def until(self, pattern: str, wanted: float) -> str:
        """The first scrape in which a sample like ``pattern`` has the value wanted."""
        sample = re.compile(rf"^{pattern} (\S+)$", re.MULTILINE)
        ends, text = time.monotonic() + PATIENCE, ""
        while time.monotonic() < ends:
            text = self.text()
            if wanted in map(float, sample.findall(text)):
                return text
            time.sleep(0.1)
        pytest.fail(f"never came: {pattern} in\n{text}")


def first_incident(trainwarden: Trainwarden) -> dict[str, Any]:
    """The first incident, once there is one."""
    ends = time.monotonic() + PATIENCE
    found: list[dict[str, Any]] = []
    while not found:
        assert time.monotonic() < ends
        time.sleep(0.2)
        found = trainwarden.json("incidents")
    return found[0]


def assert_clean(text: str) -> None:
    """promtool, where there is one, has nothing to say, and every sample is known."""
    promtool = shutil.which("promtool")
    checked = subprocess.run(
        [promtool or "true", "check", "metrics"],
        input=text.encode(),
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    known = {name for metric in METRICS for name in metric.samples}
    assert set(re.findall(r"^(trainwarden_\w+?)(?:{| )", text, re.MULTILINE)) <= known


@pytest.fixture
def scraped(trainwarden: Trainwarden) -> Iterator[Scraped]:
    """At a free port; whoever serves there is asked to end."""
    yield Scraped(free_port())
    for process in trainwarden.started:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_a_run_on_gpus(
    trainwarden: Trainwarden,
    nvml: FakeNvml,
    scraped: Scraped,
) -> None:
    """GPUs, host and run are in one clean scrape; memory is mapped to the run; where the
    allocator only counts, the driver's figures make an estimate of it; an Xid of its GPU
    is the cause of its end, and the faulty GPU is named and kept out of use."""
    script = trainwarden.script(ESTIMATES + SLEEPS)
    listen = f"127.0.0.1:{scraped.port}"
    trainwarden.start("run", "--metrics", listen, script)
    pid = trainwarden.until(lambda s: s["pid"] is not None)["pid"]
    nvml.set({"0.processes": f"{pid}:{5 * GIB}:4294967295,1:{GIB}:4294967295"})
    gpu = r'gpu="GPU-00000000-fake"'
    scraped.until(
        rf'trainwarden_gpu_process_memory_bytes{{{gpu},run="train"}}', 5 * GIB
    )
    text = scraped.until(r'trainwarden_processes{run="train"}', 2)
    scraped.until(rf"trainwarden_gpu_foreign_memory_bytes{{{gpu}}}", GIB)
    for sample in (
        'trainwarden_collector_success{collector="nvml"} 1.0',
        'trainwarden_collector_success{collector="host"} 1.0',
        'trainwarden_run_state{run="train",state="running"} 1.0',
    ):
        assert f"\n{sample}\n" in text
    assert "trainwarden_filesystem_free_bytes" in text
    scraped.until(r'trainwarden_allocator_pool_bytes{run="train"}', 5 * GIB)
    scraped.until(r'trainwarden_allocator_limit_bytes{run="train"}', 140 * GIB)
    scraped.until(r'trainwarden_allocator_source{run="train",source="estimate"}', 1)
    assert_clean(text)

    nvml.xid(0, 79)
    scraped.until(rf'trainwarden_gpu_xids_total{{{gpu},kind="bus"}}', 1)
    kept_out = rf'trainwarden_gpu_kept_out{{{gpu},reason="quarantine"}}'
    scraped.until(kept_out, 0)
    (trainwarden.directory / "crash").touch()
    first = first_incident(trainwarden)
    scraped.until(kept_out, 1)
    nvml.set({"0.processes": None})  # the driver gives back what the dead process held
    assert first["cause"] == "gpu_hardware", first
    assert "Xid (PCI:0000:30:00): 79" in str(first["because"])


@pytest.mark.slow
def test_a_driver_that_needs_a_reboot(
    trainwarden: Trainwarden, nvml: FakeNvml, scraped: Scraped
) -> None:
    """A probe in D state: the run goes on, its collector fails, and an incident says
    that the machine needs a reboot."""
    assert nvml.values
    script = trainwarden.script("import time; time.sleep(600)")
    process = trainwarden.start("run", "--metrics", f"127.0.0.1:{scraped.port}", script)
    collector = r'trainwarden_collector_success{collector="nvml"}'
    scraped.until(collector, 1)
    (probe,) = (
        child
        for child in psutil.Process(process.pid).children()
        if "supervisor.host.gpu.probe_main" in child.cmdline()
    )
    with frozen(probe.pid):
        incident = first_incident(trainwarden)
        text = scraped.until(collector, 0)
        assert 'trainwarden_run_state{run="train",state="running"} 1.0' in text
        assert incident["remedy"]["kind"] == "go_on"
        told = trainwarden("explain", str(incident["id"])).stdout
        assert "reboot" in told.lower()
    scraped.until(collector, 1)


@pytest.mark.slow
def test_where_no_gpu_is_expected(trainwarden: Trainwarden, scraped: Scraped) -> None:
    """Without a driver and without a wish for GPUs their absence is no failure."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has GPUs")
    script = trainwarden.script("import time; time.sleep(600)")
    listen = f"127.0.0.1:{scraped.port}"
    trainwarden.start("run", "--metrics", listen, script)
    scraped.until(r'trainwarden_processes{run="train"}', 1)
    text = scraped.until(r'trainwarden_collector_success{collector="host"}', 1)
    assert not re.search('gpu="|collector="nvml"', text)


@pytest.mark.slow
def test_where_a_gpu_is_expected(trainwarden: Trainwarden, scraped: Scraped) -> None:
    """A spec that asks for a GPU where no driver is: the collector reports failure."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has GPUs")
    script = trainwarden.script("import time; time.sleep(600)")
    listen = f"127.0.0.1:{scraped.port}"
    gpu = "GPU-8f6d2f4e-0000-4000-8000-000000000001"
    trainwarden.start("run", "--gpus", gpu, "--metrics", listen, script)
    scraped.until(r'trainwarden_collector_success{collector="nvml"}', 0)
