"""What ``estimate`` judges a step by."""

from dataclasses import replace

import pytest

from supervisor.cli.commands import estimate_command
from supervisor.cli.commands.estimate_command import fits_into
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory
from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.step_estimate import StepEstimate
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory

GIB = 2**30
ESTIMATE = StepEstimate(
    model=ModelMemory(
        batch=8,
        batch_bytes=0,
        parameters=1,
        trained=1,
        parameter_bytes=0,
        trained_bytes=0,
        optimizer_bytes=0,
        optimizer="SGD",
        other_bytes=0,
        data_bytes=100 * GIB,
        drawn_bytes=0,
        jit=False,
        jit_possible=False,
        backend="tensorflow",
    ),
    steps=(
        StepMemory(
            size=8,
            added_bytes=GIB,
            least_bytes=GIB,
            step_seconds=0.1,
            first_seconds=1.0,
        ),
    ),
)


def places(
    monkeypatch: pytest.MonkeyPatch,
    gpus: list[Gpu],
    limit: int | None = None,
    *,
    devices: int = 1,
    **memory: str,
) -> list[tuple[str, bool]]:
    """What it is judged by on a machine with ``gpus``, and whether it fits."""

    def here() -> list[Gpu]:
        return gpus

    monkeypatch.setattr(estimate_command, "gpus_once", here)
    spec = build_spec({"script": "train.py", "memory": memory})
    found = replace(ESTIMATE, model=replace(ESTIMATE.model, devices=devices))
    return [(one.where, one.fits) for one in fits_into(found, 8, spec, limit)]


def test_a_machine_without_a_gpu_has_nothing_to_judge_it_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But the limits that are given: that of a GPU counts where there is none, too, and
    leaves out what stays in main memory. A GPU whose memory nobody knows is none."""
    assert places(monkeypatch, []) == []
    lost = Gpu(uuid="GPU-a", index=0)
    assert places(monkeypatch, [lost]) == []
    of_spec = [("memory.gpu of the spec", True)]
    assert places(monkeypatch, [], gpu="4GiB") == of_spec
    assert places(monkeypatch, [], 4 * GIB, gpu="4GiB") == [("limit", False)]
    card = Gpu(
        uuid="GPU-a",
        index=0,
        name="Card",
        memory=GpuMemory(total=8 * GIB, used=0, free=8 * GIB),
    )
    assert places(monkeypatch, [card], gpu="4GiB") == [("GPU 0 Card", True)]
    assert places(monkeypatch, [card], devices=2) == []
    assert places(monkeypatch, [card], 4 * GIB, devices=2) == [("limit", False)]
