"""The GPU that the checks use: the one that ``CUDA_VISIBLE_DEVICES`` names first, else the
first of NVML; who else is on it, and how much of it is free.

CUDA counts GPUs by speed unless it is told otherwise, NVML by their place on the bus: all
children are told the UUID.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from supervisor.core.diagnosis.kernel.driver_errors import MPS
from supervisor.core.gpu.gpu_readings import Gpu, GpuProcess
from supervisor.host.exporter.machine_monitor import pids_are_ours, readings_of
from tests.gpu.driver_probe import probing

GIB = 2**30
UNNAMED_BYTES = GIB
"""What no listed process holds is a driver's own up to this."""
LARGE_TOTAL_BYTES = int(79.18 * GIB)
"""Of the GPU that sizes and parts in the checks are written for."""
MOST_LIMIT_BYTES = 6 * GIB
"""Of a framework, in these checks."""
MPS_PIPES = Path("/tmp/nvidia-mps")  # noqa: S108  # NVIDIA's own place
VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


class ListedGpu(Protocol):
    """What is asked of one of NVML's devices."""

    index: int
    uuid: str


Listed = TypeVar("Listed", bound=ListedGpu)


def chosen(devices: Sequence[Listed], environment: Mapping[str, str]) -> Listed | str:
    """The one that ``environment`` names first, by number or by the beginning of its
    UUID; without a name the first. Else why there is none, in a sentence."""
    if not devices:
        return "the driver lists no GPU"
    named = environment.get(VISIBLE)
    if named is None:
        return devices[0]
    first = named.split(",")[0].strip()
    if first.startswith("MIG-"):
        return f"{VISIBLE} names a part of a GPU (MIG): these checks are of a whole one"
    for one in devices:
        if first == str(one.index) or (
            first.startswith("GPU-") and one.uuid.startswith(first)
        ):
            return one
    return f"{VISIBLE} is {named!r}, which is no GPU of this machine"


def narrowed(uuid: str) -> dict[str, str]:
    """The environment in which that GPU is the only one."""
    return {ORDER: "PCI_BUS_ID", VISIBLE: uuid}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenGpu:
    """It, before the first check."""

    uuid: str
    total_bytes: int
    free_bytes: int
    parted: bool = False
    """Whether MIG is on."""
    others: tuple[GpuProcess, ...] = ()
    """Processes that the driver lists."""
    unnamed_bytes: int = 0
    """In use by processes that it does not list: of another container, say."""
    mps: bool = False
    """Whether the Multi-Process Service runs: a fault of one process may end all."""
    pids_compare: bool = True
    """Whether the driver's pids are those that are seen here."""

    @property
    def scale(self) -> float:
        """1 where the sizes of the checks fit; of a small or a busy GPU, less."""
        return min(1.0, self.free_bytes / 2 / MOST_LIMIT_BYTES)

    @property
    def crowd(self) -> str:
        """Who else uses it, in half a sentence; empty: nobody."""
        if self.others:
            listed = ", ".join(f"process {one.pid} ({one.name})" for one in self.others)
            return f"{listed} is on the GPU"
        if self.unnamed_bytes > UNNAMED_BYTES:
            held = self.unnamed_bytes / GIB
            return (
                f"{held:.1f} GiB of the GPU are in use by processes that are not listed"
            )
        return ""

    def at_most(self, nbytes: int) -> int:
        """So much, or half of what is free; whole MiB."""
        return min(nbytes, self.free_bytes // 2) >> 20 << 20

    def jobs(self, asked: int) -> int:
        """Checks that have room side by side."""
        return max(1, min(asked, self.free_bytes // (16 * GIB)))

    def fitted(self, environment: Mapping[str, str]) -> dict[str, str]:
        """``environment`` of a script, with its batch and its part of the GPU, written for
        a large GPU, as they are on this one."""
        found = dict(environment)
        if "BATCH" in found:
            found["BATCH"] = str(max(8, int(int(found["BATCH"]) * self.scale) // 8 * 8))
        part = self.scale * LARGE_TOTAL_BYTES / self.total_bytes
        for name in ("FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
            if name in found:
                found[name] = f"{float(found[name]) * part:.4f}"
        return found


def as_it_is(gpu: Gpu, *, mps: bool) -> ChosenGpu:
    """``gpu`` as a sample has it. Raises RuntimeError where its memory is not told."""
    memory = gpu.memory
    if memory is None:
        message = "the driver does not say how much memory the GPU has"
        raise RuntimeError(message)
    others = gpu.processes or ()
    named = sum(one.bytes or 0 for one in others)
    return ChosenGpu(
        uuid=gpu.uuid,
        total_bytes=memory.total,
        free_bytes=memory.free,
        parted=bool(gpu.mig),
        others=tuple(others),
        unnamed_bytes=max(0, memory.used - named),
        mps=mps or any(one.name.startswith(MPS) for one in others),
        pids_compare=pids_are_ours(),
    )


def looked_at(uuid: str) -> ChosenGpu:
    """That GPU now. Raises RuntimeError where the driver does not answer."""
    with probing(1.0) as probe:
        sample = probe.line().sample
    gpu = next(one for one in readings_of(sample) if one.uuid == uuid)
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", MPS_PIPES))
    return as_it_is(gpu, mps=(pipes / "control").exists())
