"""The evidence of GPUs: what looks at those of an attempt show together.

A look is a sample of the driver that came while steps were made. Who uses them is told by
the processes on them; where the driver names none of ours, a GPU that the spec alone leaves
is ours.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from supervisor.core.gpu.assignment import tenants
from supervisor.core.gpu.gpu_readings import Gpu

SLOWING = frozenset({
    "power_cap", "hardware_slowdown", "thermal", "hardware_thermal", "power_brake",
    "board_limit", "reliability",
})  # fmt: skip
"""Reasons of the driver that nobody asked for; clocks that a person set are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTenant:
    """A process of somebody else."""

    gpu: str
    pid: int
    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvidence:
    """What all looks up to now show. None: not known."""

    usable: int = 0
    """GPUs that the driver lists and the run may use, whether it does or not."""
    looks: int = 0
    """At all GPUs of the attempt."""
    busy_looks: int = 0
    """Those in which the driver told how busy each was."""
    busy_sum: float = 0.0
    """The mean part of each of them in which a kernel ran, added up."""
    shared_looks: int = 0
    """Looks in a row, up to now, that found somebody else there."""
    tenant: GpuTenant | None = None
    """Who held most at the last of them."""
    slowed_looks: int = 0
    """Looks that found clocks held down."""
    clock_sum: float = 0.0
    """Their parts of the clock that the slowest GPU can run at, added up."""
    slowed_by: frozenset[str] = frozenset()
    """Why, in any of them (``gpu_readings.THROTTLES``)."""
    narrow_looks: int = 0
    """Looks in a row, up to now, at which a PCIe link was narrower than it can be."""
    lanes: tuple[int, int] | None = None
    """The lanes of that link, and how many it can have."""

    @property
    def busy(self) -> float | None:
        """Mean part of the time in which a kernel ran, 0 to 1."""
        return self.busy_sum / self.busy_looks if self.busy_looks else None

    def seen(self, gpus: Sequence[Gpu], *, ours: Collection[int]) -> "GpuEvidence":
        """With one more look: at the ``gpus`` of the attempt, whose processes are
        ``ours``."""
        if not gpus:
            return self
        return replace(
            self,
            looks=self.looks + 1,
            **self._use(gpus),
            **self._sharing(gpus, ours),
            **self._clocks(gpus),
            **self._links(gpus),
        )

    def _use(self, gpus: Sequence[Gpu]) -> dict[str, Any]:
        known = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
        if len(known) < len(gpus):
            return {}
        busy = self.busy_sum + sum(known) / len(known)
        return {"busy_looks": self.busy_looks + 1, "busy_sum": busy}

    def _sharing(self, gpus: Sequence[Gpu], ours: Collection[int]) -> dict[str, Any]:
        others = [
            GpuTenant(gpu=gpu.uuid, pid=one.pid, name=one.name, bytes=one.bytes or 0)
            for gpu in gpus
            for one in tenants([gpu], gpus={gpu.uuid}, ours=ours)
        ]
        largest = max(others, key=lambda one: one.bytes, default=None)
        looks = self.shared_looks + 1 if largest is not None else 0
        return {"shared_looks": looks, "tenant": largest}

    def _clocks(self, gpus: Sequence[Gpu]) -> dict[str, Any]:
        reasons = {one for gpu in gpus for one in gpu.throttled or ()} & SLOWING
        parts = [part for gpu in gpus if (part := _clock_part(gpu)) is not None]
        if not reasons or not parts:
            return {}
        return {
            "slowed_looks": self.slowed_looks + 1,
            "clock_sum": self.clock_sum + min(parts),
            "slowed_by": self.slowed_by | reasons,
        }

    def _links(self, gpus: Sequence[Gpu]) -> dict[str, Any]:
        links = [gpu.pcie_lanes for gpu in gpus if gpu.pcie_lanes is not None]
        narrow = [one for one in links if one[0] < one[1]]
        looks = self.narrow_looks + 1 if narrow else 0
        return {"narrow_looks": looks, "lanes": min(narrow, default=None)}


def _clock_part(gpu: Gpu) -> float | None:
    """How fast it runs, of what it can; None where it is not slowed, or not known."""
    now, most = gpu.clocks_hertz.get("sm"), gpu.clock_limits_hertz.get("sm")
    if not (gpu.throttled or frozenset()) & SLOWING or now is None or not most:
        return None
    return now / most


def gpus_of(
    gpus: Sequence[Gpu], *, named: Collection[str], ours: Collection[int]
) -> tuple[Gpu, ...]:
    """Those that the processes ``ours`` are on; where the driver names none of them, the
    one that the spec leaves (``named``), or none: whose the others are is not known."""
    on = tuple(
        gpu for gpu in gpus if any(one.pid in ours for one in gpu.processes or ())
    )
    left = tuple(gpu for gpu in gpus if gpu.uuid in named)
    return on or (left if len(left) == 1 else ())
