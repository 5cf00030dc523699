"""``make gpu`` on strangers' machines: which GPU it takes, what it leaves alone, how large
its sizes are, and what its report does not tell."""

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess
from tests.gpu import frameworks
from tests.gpu.anonymous_report import anonymous
from tests.gpu.chosen_gpu import GIB, ChosenGpu, as_it_is, chosen, narrowed
from tests.gpu.driver_checks import ASKED, known_to
from tests.gpu.gpu import TABLE, fresh
from tests.gpu.gpu_check import CheckFacts, CheckPlace, SkippedError, judged
from tests.gpu.training_checks import LARGE, LIMITED
from tests.support.fake_nvml import FakeNvml

ROOT = Path(__file__).parents[2]
BY_NAME = {check.name: check for check in TABLE}
OTHER = GpuProcess(pid=7, bytes=GIB, name="Xorg")


def gpu(total: float = 79.18, free: float | None = None, **more: Any) -> ChosenGpu:
    """One with so many GiB."""
    left = total if free is None else free
    return ChosenGpu(
        uuid="GPU-x", total_bytes=int(total * GIB), free_bytes=int(left * GIB), **more
    )


class Listed:
    """A GPU as NVML lists it."""

    def __init__(self, index: int, uuid: str) -> None:
        """Both as NVML has them."""
        self.index, self.uuid = index, uuid


BOX = [Listed(0, "GPU-aaaa-1"), Listed(1, "GPU-bbbb-2")]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, BOX[0]),
        ("1", BOX[1]),
        ("1,0", BOX[1]),
        ("GPU-bbbb-2", BOX[1]),
        ("GPU-bb", BOX[1]),
        ("MIG-4f", "a part of a GPU"),
        ("", "no GPU of this machine"),
        ("-1", "no GPU of this machine"),
        ("9", "no GPU of this machine"),
    ],
)
def test_the_gpu_that_is_used(named: str | None, expected: Listed | str) -> None:
    """The one that the environment names first; all children are told its UUID."""
    environment = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    found = chosen(BOX, environment)
    if isinstance(expected, str):
        assert expected in str(found)
    else:
        assert found is expected
    assert chosen([], environment) == "the driver lists no GPU"
    assert narrowed("GPU-x") == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-x",
    }


@pytest.mark.parametrize(
    ("free", "asked", "jobs"), [(79, 3, 3), (40, 3, 2), (16, 3, 1), (7, 8, 1)]
)
def test_checks_side_by_side_have_room(free: float, asked: int, jobs: int) -> None:
    """16 GiB each, and at least one at a time."""
    assert gpu(free=free).jobs(asked) == jobs


def test_what_is_seen_of_the_gpu() -> None:
    """Who is on it, what nobody is said to hold, and whether MPS is there."""
    memory = GpuMemory(total=80 * GIB, used=9 * GIB, free=70 * GIB, reserved=GIB)
    seen = Gpu(uuid="GPU-x", memory=memory, processes=(OTHER,))
    found = as_it_is(seen, mps=False)
    assert (found.free_bytes, found.unnamed_bytes) == (70 * GIB, 8 * GIB)
    assert (found.others, found.mps, found.parted) == ((OTHER,), False, False)
    server = GpuProcess(pid=8, bytes=0, name="nvidia-cuda-mps")
    assert as_it_is(
        Gpu(uuid="GPU-x", memory=memory, processes=(server,)), mps=False
    ).mps
    with pytest.raises(RuntimeError, match="how much memory"):
        as_it_is(Gpu(uuid="GPU-x"), mps=False)


def test_sizes_are_those_of_the_gpu() -> None:
    """As written for a large one; on a small one a step is still larger than the limit, and
    smaller than the GPU twice over."""
    large = {**LARGE, **LIMITED["torch"]}
    assert gpu().fitted(large) == {**large, "FRACTION": "0.0600"}
    small = gpu(7.6, 7.2)
    fitted = small.fitted({**large, **LIMITED["jax"]})
    assert fitted["FRACTION"] == fitted["XLA_PYTHON_CLIENT_MEM_FRACTION"]
    limit = float(fitted["FRACTION"]) * 7.6
    step = 13 * int(fitted["BATCH"]) / int(LARGE["BATCH"])
    assert 2 < limit < 3.6
    assert limit < step
    assert small.at_most(6 * GIB) == int(3.6 * GIB) >> 20 << 20
    assert gpu().at_most(6 * GIB) == 6 * GIB
    assert int(gpu(141, 140).fitted(large)["BATCH"]) == 512


@pytest.mark.parametrize(
    ("name", "where", "because"),
    [
        ("crowded_torch", gpu(), ""),
        ("crowded_torch", gpu(7.6, 7.2), ""),
        ("crowded_torch", gpu(8, 5), "it needs 6 GiB of the GPU, and 5.0 GiB are free"),
        ("crowded_torch", gpu(parted=True), "MIG"),
        ("processes", gpu(parted=True), "MIG"),
        ("figures", gpu(parted=True), ""),
        ("whole_jax", gpu(others=(OTHER,)), "process 7 (Xorg) is on the GPU"),
        ("whole_jax", gpu(unnamed_bytes=3 * GIB), "3.0 GiB of the GPU are in use"),
        ("oom_torch", gpu(others=(OTHER,)), ""),
        ("figures", gpu(others=(OTHER,)), ""),
        ("xids", gpu(others=(OTHER,)), ""),
        ("xids", gpu(mps=True), "MPS"),
        ("faulted_torch", gpu(mps=True), "MPS"),
        ("resumed_torch", gpu(mps=True), ""),
    ],
)
def test_what_is_skipped(name: str, where: ChosenGpu, because: str) -> None:
    """In a sentence: what has no room, and what would harm others unless it is asked for."""
    said = BY_NAME[name].lacks(where, anyway=False)
    assert because in said
    assert bool(said) is bool(because)
    harms = "--anyway" in said
    assert bool(BY_NAME[name].lacks(where, anyway=True)) is (bool(said) and not harms)


def test_a_check_that_finds_that_it_cannot_be(tmp_path: Path) -> None:
    """It is skipped, and has not failed."""

    def run(_place: CheckPlace) -> CheckFacts:
        message = "the memory is gone by now"
        raise SkippedError(message)

    check = BY_NAME["figures"]
    changed = type(check)(name="x", what="y", run=run)
    found = judged(changed, tmp_path / "x", gpu(), "")
    assert (found.mark, found.skipped) == ("skipped", "the memory is gone by now")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("n = 1", ""),
        ("n = 0", "torch sees no GPU: pip install torch"),
        ("print('noise'); n = 0", "torch sees no GPU"),
        (
            "raise SystemExit('driver too old')",
            "cannot be asked for GPUs: driver too old",
        ),
    ],
)
def test_a_framework_that_sees_no_gpu(
    monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    """Its checks are skipped with what to install: it may be a build for the CPU."""
    monkeypatch.setitem(frameworks.ASKED, "torch", script)

    def is_there(_name: str) -> bool:
        return True

    monkeypatch.setattr(importlib.util, "find_spec", is_there)
    frameworks.lacking.cache_clear()
    found = frameworks.lacking("torch")
    frameworks.lacking.cache_clear()
    assert said in found
    assert bool(found) is bool(said)
    assert "tensorflow-gpu" in frameworks.INSTALL["tensorflow"]
    assert frameworks.INSTALL.keys() == {
        name for check in TABLE for name in check.needs
    }


def test_fields_that_nvidia_smi_does_not_know() -> None:
    """An older one refuses the whole question for one of them."""
    help_text = '"gpu_uuid" or "uuid"\nThe id.\n\n"pci.bus_id" or "gpu_bus_id"\n\n'
    assert known_to(help_text) == {"uuid": "uuid", "bus": "pci.bus_id"}
    assert known_to("".join(f'"{name}"\n' for name in ASKED.values())) == ASKED


def test_the_report_names_no_board_machine_or_person(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor does it lose the names of its own fields."""
    monkeypatch.setenv("HOME", "/home/gpu")
    monkeypatch.setenv("LOGNAME", "gpu")
    monkeypatch.setattr(socket, "gethostname", lambda: "box7.example.org")
    tail = "0123abcd-01ab-23cd-45ef-0123456789ab"
    report = {
        "gpu": f"GPU-{tail}, MIG-{tail}, MIG-GPU-{tail}/1/0",
        "facts": [
            f"/home/gpu/x of gpu on box7, box7.example.org, {tmp_path}/y",
            7,
            None,
        ],
    }
    nobody = "00000000-0000-0000-0000-000000000000"
    assert anonymous(report, tmp_path) == {
        "gpu": f"GPU-{nobody}, MIG-{nobody}, MIG-GPU-{nobody}",
        "facts": ["<home>/x of <user> on <host>, <host>, <directory>/y", 7, None],
    }


def test_what_was_kept_stays(tmp_path: Path) -> None:
    """A second time has a directory of its own."""
    assert fresh(tmp_path / "kept").name == "1"
    assert fresh(tmp_path / "kept").name == "2"


def test_beside_others_nothing_is_taken(nvml: FakeNvml, tmp_path: Path) -> None:
    """From the command's own side: the second GPU is asked for, and is in use."""
    nvml.gpus(2)
    nvml.set({"1.processes": f"1:{20 * GIB}:4294967295", "1.mig": 0})
    out = tmp_path / "report.json"
    told = ["--only", "processes", "whole_jax", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.gpu", *told],
        cwd=ROOT,
        env={**nvml.environment, "CUDA_VISIBLE_DEVICES": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 checks: 2 skipped" in done.stdout
    assert done.stdout.count("is on the GPU (--anyway: yet)") == 2
    assert "GPU-00000001" not in out.read_text()
