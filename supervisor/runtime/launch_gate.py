"""The launch gate: whether the next attempt of a run may start, and who or what holds it."""

from supervisor.core.gpu.assignment import by_uuid, named
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.events import GateClear, GateHeld
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.remediation.overrides import Awaited
from supervisor.host.gpu.gpu_access import GpuAccess
from supervisor.host.launch.leftovers import GateState
from supervisor.runtime.attempts.attempt_monitor import AttemptMonitor


def gate(
    following: AttemptMonitor,
    run: RunState,
    devices: GpuAccess,
    *,
    kept: frozenset[str] | None,
    awaited: Awaited | None,
) -> GateState:
    """Whether nothing is left of the attempt before, and there are GPUs for the next.

    ``kept``: the GPUs that are quarantined, as the ledger knows; None: it cannot be read.
    """
    row, spec = following.row, following.spec
    gpus = devices.gpus()
    quarantined = run.quarantined if kept is None else kept
    out = quarantined.union(run.overrides.avoid)
    wanted = named(spec.gpus, gpus)
    found = following.remains.gate(
        now=following.clock.now(),
        gpus=gpus,
        visible=[gpu for gpu in wanted if gpu not in out],
        awaited=awaited,
        disk=following.paths.snapshots,
    )
    if not isinstance(found, GateClear):
        return found
    if wanted and out.issuperset(wanted):
        return GateHeld(f"every GPU of this run is quarantined: {', '.join(wanted)}")
    blind = _blind(spec, gpus, out, devices)
    if blind is not None:
        return GateHeld(blind)
    left = following.launcher.left(row.run_id, job=row.job)
    return GateClear(kept) if left is None else GateHeld(left)


def _blind(
    spec: Spec, gpus: tuple[Gpu, ...], out: frozenset[str], devices: GpuAccess
) -> str | None:
    """Why it cannot be told which GPUs are not those that must be left out."""
    if gpus or not out or by_uuid(spec.gpus) or spec.memory.cpu:
        return None
    because = devices.silent()
    return None if because is None else f"{', '.join(sorted(out))}: {because}"
