"""What a real driver said (``tests/gpu/seen``), and what NVML's double says: the same fields,
of the same kinds. And ``make gpu`` where there is no GPU."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from supervisor.core.gpu.gpu_readings import GpuSample
from supervisor.core.gpu.probe_protocol import parse_line
from supervisor.host.gpu.probe_sources import PROBE
from tests.gpu.driver_checks import agrees, told_by_us
from tests.gpu.gpu import TABLE
from tests.support.fake_nvml import FakeNvml

ROOT = Path(__file__).parents[2]
SEEN = sorted((ROOT / "tests" / "gpu" / "seen").glob("report_*.json"))
UNLIKE = {"nvlink_errors", "nvlink_kibibytes", "processes", "mig", "problems"}
"""What depends on the board, or on who uses it."""


def reports() -> Iterator[tuple[str, dict[str, Any]]]:
    """Those with the figures of a driver, after their names."""
    for file in SEEN:
        report = json.loads(file.read_text())
        if report["checks"].get("figures", {}).get("facts"):
            yield file.stem, report


REPORTS = dict(reports())


def kind(value: object) -> object:
    """The types of a value, by name where it has names."""
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {name: kind(inner) for name, inner in named.items()}
    return float if isinstance(value, (int, float)) else type(value)


def test_there_is_a_report() -> None:
    """Or nothing below would be tried."""
    assert REPORTS


@pytest.mark.parametrize("name", REPORTS)
def test_a_real_drivers_words_are_understood(name: str) -> None:
    """And mean what ``nvidia-smi`` said of them."""
    facts = REPORTS[name]["checks"]["figures"]["facts"]
    sample = parse_line(json.dumps(facts["sample"]).encode())
    assert isinstance(sample, GpuSample)
    ours = told_by_us(sample.gpus[0])
    for figure, theirs in facts["nvidia_smi"].items():
        assert agrees(figure, ours[figure], theirs), figure


@pytest.mark.parametrize("name", REPORTS)
def test_the_double_speaks_like_a_real_driver(name: str, nvml: FakeNvml) -> None:
    """Field by field."""
    nvml.gpus(1)
    done = subprocess.run(
        [sys.executable, "-c", ONE_LINE, PROBE],
        env=nvml.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    double = json.loads(done.stdout)["gpus"][0]
    real = REPORTS[name]["checks"]["figures"]["facts"]["sample"]["gpus"][0]
    assert double.keys() == real.keys()
    for figure in real.keys() - UNLIKE:
        assert kind(double[figure]) == kind(real[figure]), figure


ONE_LINE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-m", sys.argv[1]], stdout=subprocess.PIPE)
print(child.stdout.readline().decode())
child.kill()
"""


def test_without_a_gpu_it_says_what_it_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends well; nothing is written."""
    monkeypatch.setenv(
        "LD_LIBRARY_PATH", str(tmp_path)
    )  # a box with a GPU is none here
    (tmp_path / "libnvidia-ml.so.1").touch()
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.gpu", "--out", str(tmp_path / "report.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "With a GPU these would be done:" in done.stdout
    assert all(check.name in done.stdout for check in TABLE)
    assert not (tmp_path / "report.json").exists()
