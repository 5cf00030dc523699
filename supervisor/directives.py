"""What an attempt is told, and what is told of it: pure translations."""

from pathlib import Path

from supervisor.core.batching import Plan
from supervisor.core.effects import RecordIncident
from supervisor.core.explain import UNSAVED
from supervisor.core.spec import Spec
from supervisor.host.ledger import RunRow
from supervisor.wire.directive import Directive
from supervisor.wire.paths import RunPaths, memory_directory


def memory_of(row: RunRow, spec: Spec) -> Path | None:
    """Where the memory tier of a run is; None: it has none."""
    parent = spec.snapshots.memory
    return None if parent is None else memory_directory(Path(parent), row.run_id)


def make_directive(
    row: RunRow,
    spec: Spec,
    paths: RunPaths,
    number: int,
    plan: Plan | None,
    *,
    between_failures: float,
) -> Directive:
    """What attempt ``number`` is told; ``between_failures`` in seconds."""
    every, inside = spec.snapshots.every, spec.snapshots.memory_every
    memory = memory_of(row, spec)
    return Directive(
        run_id=row.run_id,
        job=row.job,
        attempt=number,
        script=spec.script,
        args=spec.args,
        attempt_directory=str(paths.attempt(number).root),
        snapshot_directory=str(paths.snapshots),
        memory_directory=None if memory is None else str(memory),
        seed=row.seed,
        restore=True,
        restore_before_step=None,
        slice_size=None if plan is None else plan.slice_size,
        calibrate=plan is not None and plan.calibrate,
        slice_ceiling=None if plan is None else plan.ceiling,
        memory_limit_bytes=spec.memory.cpu,
        gpu_memory_limit_bytes=spec.memory.gpu,
        gpu_memory_growth=spec.memory.gpu is None,
        allow_inexact=spec.microbatch.allow_inexact,
        snapshot_every_seconds=None if every is None else every.seconds,
        snapshot_every_steps=None if every is None else every.steps,
        memory_every_seconds=None if inside is None else inside.seconds,
        memory_every_steps=None if inside is None else inside.steps,
        snapshot_budget=spec.snapshots.budget,
        mean_seconds_between_failures=between_failures,
        snapshot_quota_bytes=spec.snapshots.quota,
        snapshots_kept=spec.snapshots.keep,
        deterministic=False,
    )


def incident_sentence(effect: RecordIncident) -> str:
    """An incident as one line for the log."""
    at = "" if effect.failed_step is None else f" at step {effect.failed_step}"
    reasons = effect.diagnosis.because
    because = f": {reasons[0].text.strip()[:200]}" if reasons else ""
    unsaved = UNSAVED.get(effect.happened)
    if unsaved is not None:
        return f"attempt {effect.attempt}{at}: {unsaved}{because}; it trains on"
    return f"attempt {effect.attempt} failed{at}: {effect.diagnosis.cause}{because}"
