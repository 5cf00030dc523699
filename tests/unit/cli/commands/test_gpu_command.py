"""``trainwarden gpu``, over real probes and a double of NVML."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from supervisor.cli.commands.gpu_command import table_of
from tests.support.boxes import BoxUnderTest, box_in, until
from tests.support.fake_nvml import GIB, FakeNvml

NOBODY = 2**22 + 7
"""No process has this number."""


@pytest.fixture
def nvml(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two healthy GPUs, seen by every process that is started."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(2)
    fake.set({"0.processes": f"{NOBODY}:{GIB}:4294967295"})
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML"):
        monkeypatch.setenv(name, fake.environment[name])
    return fake


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxUnderTest]:
    """A daemon's place, without a daemon yet."""
    with box_in(tmp_path) as made:
        yield made


def seen(box: BoxUnderTest, wanted: Callable[[dict[str, Any]], object]) -> Any:
    """What the command tells, as soon as it is as wanted."""
    until(lambda: wanted(box.json("gpu")))
    return box.json("gpu")


def scraped(port: int) -> str:
    """What ``/metrics`` says now."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=10)) as asked:
        asked.request("GET", "/metrics")
        return asked.getresponse().read().decode()


def test_without_a_daemon(box: BoxUnderTest, nvml: FakeNvml) -> None:
    """The driver itself is asked."""
    del nvml
    shown = box.json("gpu")
    assert (shown["answers"], shown["problem"], shown["reboot"]) == (True, "", False)
    first, second = shown["gpus"]
    assert (first["gpu"], first["index"], first["job"]) == (
        "GPU-00000000-fake",
        0,
        None,
    )
    assert first["memory_total_bytes"] == 141 * GIB
    assert first["processes"] == [{"pid": NOBODY, "job": None, "bytes": GIB}]
    assert second["processes"] == []
    text = box.do("gpu")
    assert "0 GPU-00000000  NVIDIA H200" in text
    assert "61 °C" in text


def test_through_a_daemon(box: BoxUnderTest, nvml: FakeNvml) -> None:
    """Which job was given which GPU, what is out of service, and Xids since it began;
    the exporter says as well who is given to nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    box.config = f'[metrics]\nlisten = "127.0.0.1:{port}"\n'
    box.begin()
    seen(box, lambda shown: shown["answers"])
    script = box.script("import time; time.sleep(600)")
    box.do("submit", "--gpu-count", "1", script)
    box.client.post("/v1/gpus/GPU-00000001-fake/service", {"in_service": False})
    nvml.xid(1, 79)
    shown = seen(
        box, lambda shown: shown["gpus"][0]["job"] and shown["gpus"][1]["xids"]
    )
    first, second = shown["gpus"]
    assert (first["job"], first["in_service"], first["xids"]) == ("train", True, 0)
    assert (second["job"], second["in_service"], second["last_xid"]) == (
        None,
        False,
        79,
    )
    out = 'trainwarden_gpu_kept_out{gpu="GPU-0000000%d-fake",reason="%s"} %.1f'
    wanted = [
        out % (0, "out_of_service", 0),
        out % (1, "out_of_service", 1),
        out % (1, "quarantine", 0),
    ]
    until(lambda: set(wanted) <= set(scraped(port).splitlines()))


def test_no_gpus(
    box: BoxUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is told, with a daemon and without one, and it is no failure."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    shown = box.json("gpu")
    if shown["gpus"]:
        pytest.skip("this machine has GPUs")
    assert not shown["answers"]
    assert "NVML" in shown["problem"]
    told = box.do("gpu").strip()
    assert told.startswith("there is no NVIDIA driver here (NVML")
    assert told.endswith("--gpus all")
    assert len(told.splitlines()) == 1
    box.begin()
    assert "NVML" in seen(box, lambda shown: "NVML" in shown["problem"])["problem"]


def test_the_table() -> None:
    """What is not known is left empty; what somebody should look at is told."""
    bare: dict[str, Any] = {
        "gpu": "GPU-2", "index": None, "name": "", "lost": True, "in_service": False,
        "job": None, "memory_total_bytes": None, "memory_used_bytes": None,
        "utilization": None, "temperature_celsius": None, "power_watts": None,
        "power_limit_watts": None, "throttled": ["thermal"], "xids": 2, "last_xid": 79,
        "processes": [{"pid": 1, "job": None, "bytes": 1}], "problems": ["a: b"],
    }  # fmt: skip
    console = Console(width=300, record=True)
    console.print(table_of({"driver": "580", "gpus": [bare]}))
    said = console.export_text()
    assert "driver 580" in said
    assert "None" not in said
    for remark in (
        "lost: it has fallen off the bus", "out of service", "slowed by thermal",
        "Xid 79 (2 in all)", "1 processes that are no job's", "a: b",
    ):  # fmt: skip
        assert remark in said
