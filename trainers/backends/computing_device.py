"""The device that training computes on, as a snapshot keeps it.

Processors and GPUs of different models add in another order (vector width, blocking by
caches and cores, another choice of algorithms): bits are promised on the same one alone.
And a framework that loses its GPU trains on with the processor, however slow that is, and
says so in a line of its log.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainers.process.compilations.compilation_key import processor

CORES = len(os.sched_getaffinity(0))
"""When this module is imported: OpenMP may bind the main thread to one of them later."""
CPU, GPU = "cpu", "gpu"
CPUINFO = Path("/proc/cpuinfo")
NAMES = ("model name", "CPU part")
"""What proc(5) calls the model of a processor, on x86 and on Arm."""
FEATURES = ("flags", "Features")
VECTORS = ("amx", "asimd", "avx", "bf16", "f16c", "fma", "i8mm", "neon", "sse", "sve")
"""How features begin that decide which arithmetic is chosen. Others come and go with a
kernel's updates."""
NO_GPU = ("", "-1", "none", "nodevfiles")
"""Of ``CUDA_VISIBLE_DEVICES``: who sets it so wants none."""
GONE = (
    "it was trained on {} so far, and the framework sees no GPU now: does nvidia-smi list"
    " it? The driver may hang, or the GPU be off the bus. (To go on on the CPU, run it with"
    " --env CUDA_VISIBLE_DEVICES=-1)"
)
ANOTHER = (
    "it was trained on {} so far, and is on {} now: the same samples, steps and schedule,"
    " but other arithmetic"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputingDevice:
    """What decides the arithmetic."""

    kind: str
    """``CPU`` or ``GPU``."""
    model: str
    """For a person."""
    features: tuple[str, ...] = ()
    """Of a processor: its vector instructions."""

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {
            "kind": self.kind,
            "model": self.model,
            "features": list(self.features),
        }


def of_gpu(model: str) -> ComputingDevice:
    """A GPU of this model."""
    return ComputingDevice(kind=GPU, model=model)


def of_processor(cpuinfo: str, *, cores: int) -> ComputingDevice:
    """The first processor that the text of proc(5) tells of, with so many cores for us."""
    lines = (line.partition(":") for line in processor(cpuinfo).splitlines())
    told = {name.strip(): value.strip() for name, _, value in lines}
    model = next((told[name] for name in NAMES if name in told), "a processor")
    flags = next((told[name] for name in FEATURES if name in told), "")
    vectors = tuple(sorted(one for one in flags.split() if one.startswith(VECTORS)))
    counted = f"{cores} cores" if cores != 1 else "1 core"
    return ComputingDevice(kind=CPU, model=f"{model}, {counted}", features=vectors)


def this_processor() -> ComputingDevice:
    """The one that this process runs on."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return of_processor(text, cores=CORES)


def is_without_gpu(environment: Mapping[str, str]) -> bool:
    """Whether that environment asks for the processor, and no GPU."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip().lower() in NO_GPU:
        return True
    names = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "KERAS_TORCH_DEVICE")
    return any(environment.get(name, "").lower().startswith(CPU) for name in names)


def gone(then: Mapping[str, Any] | None, now: ComputingDevice) -> str | None:
    """What to say where a snapshot (``then``, of ``to_json``) is of a GPU, and ``now`` is
    a processor; else None. Of an older snapshot nothing is known."""
    if then is None or (then["kind"], now.kind) != (GPU, CPU):
        return None
    return GONE.format(then["model"])


def another(then: Mapping[str, Any] | None, now: ComputingDevice) -> str | None:
    """Why not the same bits, where a snapshot is of another device; else None."""
    if then is None or then == now.to_json():
        return None
    told = now.model
    if then["model"] == told:
        told += " with other vector instructions"
    return ANOTHER.format(then["model"], told)
