"""GPU time, as accounts keep it: who held a GPU, and whether it worked.

A GPU is looked at once a second, and the time since the last look is booked on what it
does now. ``busy`` and ``idle`` are those that a run holds, told apart by the utilization
that the driver says; ``unknown``: held, and the driver does not say (it is silent, or
the GPU is divided by MIG). ``free``: nobody's; ``out``: given to nobody, or lost.
"""

from collections.abc import Collection
from itertools import chain

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.metrics.machine_state import GpuTimes, Machine

HELD = ("busy", "idle", "unknown")
USES = (*HELD, "free", "out")
IDLE_BELOW = 0.05
"""A utilization below this is none: a display or a monitor costs as much."""


def clocked(
    times: GpuTimes, machine: Machine, *, runs: Collection[str], now: float
) -> GpuTimes:
    """``times`` with what passed since the last look; ``runs``: those that are shown,
    the others are forgotten, but not what their owners had of GPUs."""
    passed = 0.0 if times.seen is None else max(now - times.seen, 0.0)
    uses = uses_of(machine)
    devices = dict(times.devices)
    held = {key: spent for key, spent in times.runs.items() if key[0] in runs}
    users = dict(times.users)
    for gpu, use in uses.items():
        for one in USES:
            devices.setdefault((gpu, one), 0.0)
        devices[gpu, use] += passed
    for gpu, (run, owner) in machine.jobs.holders.items():
        use = uses[gpu] if uses[gpu] in HELD else "unknown"
        _book(users, owner, use, passed)
        if run in runs:
            _book(held, run, use, passed)
    return GpuTimes(seen=now, devices=devices, runs=held, users=users)


def _book(
    account: dict[tuple[str, str], float], whose: str, use: str, seconds: float
) -> None:
    """Every use is there from the start, at 0."""
    for one in HELD:
        account.setdefault((whose, one), 0.0)
    account[whose, use] += seconds


def uses_of(machine: Machine) -> dict[str, str]:
    """What each GPU is used for now, by UUID: those that the driver tells of, and those
    that a run holds."""
    uses = dict.fromkeys(machine.jobs.holders, "unknown")
    return uses | {gpu.uuid: _use(gpu, machine) for gpu in machine.gpus}


def _use(gpu: Gpu, machine: Machine) -> str:
    out = frozenset(chain.from_iterable(machine.kept_out.values()))
    if gpu.lost or gpu.uuid in out or str(gpu.index) in out:
        return "out"
    parts = (part.uuid for part in gpu.mig)
    if machine.jobs.holders.keys().isdisjoint((gpu.uuid, *parts)):
        return "free"
    if gpu.utilization is None:
        return "unknown"
    return "idle" if gpu.utilization < IDLE_BELOW else "busy"
