"""The directive of an attempt, and the sentences about it: pure translations."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.explain import UNSAVED, verdict_sentence
from supervisor.core.diagnosis.result import IncidentKind
from supervisor.core.gpu.assignment import named, usable
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.effects import AnswerFailure, RecordIncident
from supervisor.core.lifecycle.live_incidents import ROOM
from supervisor.core.remediation.overrides import NOTHING, Overrides, variables
from supervisor.core.text.units import shortened
from supervisor.host.ledger.ledger import RunRow
from supervisor.host.telemetry.log_retention import LogRetention
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.recovery_answer import RecoveryAnswer
from supervisor.wire.paths import RunPaths, memory_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEnds:
    """Where attempts of a run are to end that is only tried (``certify``)."""

    stop_at_step: int | None = None
    """The run ends there, with its state saved."""
    kills: tuple[tuple[int, float], ...] = ()
    """Of each attempt in turn: the step after which it is killed, and how many seconds
    later."""

    def of(self, directive: Directive) -> Directive:
        """``directive`` with what is planned for its attempt."""
        kill = self.kills[directive.attempt - 1 : directive.attempt]
        for step, seconds in kill:
            directive = replace(directive, die_at_step=step, die_after_seconds=seconds)
        return replace(directive, stop_at_step=self.stop_at_step)


NOTHING_PLANNED = PlannedEnds()


def memory_of(row: RunRow, spec: Spec) -> Path | None:
    """Where the memory tier of a run is; None: it has none."""
    parent = spec.snapshots.memory
    return None if parent is None else memory_directory(Path(parent), row.run_id)


def tiers_of(row: RunRow, spec: Spec, paths: RunPaths) -> tuple[Path, Path | None]:
    """The tiers that can be looked into from here: the memory tier of another user's run
    cannot, so its progress is judged by what is on disk."""
    memory = memory_of(row, spec)
    hidden = memory is None or not os.access(memory, os.R_OK | os.X_OK)
    return paths.snapshots, None if hidden else memory


def log_cap_of(spec: Spec) -> LogRetention:
    """What stays on disk of the log of an attempt."""
    return LogRetention.of(head=spec.logs.head, tail=spec.logs.tail)


def make_directive(
    row: RunRow,
    spec: Spec,
    paths: RunPaths,
    number: int,
    overrides: Overrides | None,
    *,
    between_failures: float,
    gpus: Sequence[Gpu] = (),
    quarantined: frozenset[str] = frozenset(),
) -> Directive:
    """What attempt ``number`` is told; ``between_failures`` in seconds.

    ``gpus``: the box as it is now, empty where it is not known.
    """
    overrides = overrides or NOTHING
    visible = usable(spec.gpus, gpus, without=quarantined.union(overrides.avoid))
    asked = _asked(row, spec, paths, number, between_failures=between_failures)
    return replace(
        _remedied(asked, spec, overrides),
        visible_gpus=visible,
        gpu_memory_limit_bytes=gpu_limit(spec, overrides, gpus, visible),
    )


def _asked(
    row: RunRow, spec: Spec, paths: RunPaths, number: int, *, between_failures: float
) -> Directive:
    """What the job and its spec ask of attempt ``number``, without any remedy."""
    every, inside = spec.snapshots.every, spec.snapshots.memory_every
    memory = memory_of(row, spec)
    return Directive(
        run_id=row.run_id,
        job=row.job,
        attempt=number,
        script=spec.script,
        args=spec.args,
        module=spec.module or "",
        script_hash=row.script_hash,
        kept_script=str(paths.script),
        attempt_directory=str(paths.attempt(number).root),
        snapshot_directory=str(paths.snapshots),
        memory_directory=None if memory is None else str(memory),
        seed=row.seed,
        restore=True,
        restore_before_step=None,
        slice_size=spec.compute.slice,
        calibrate=False,
        slice_ceiling=None,
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
        precision=spec.compute.precision,
        jit=spec.compute.jit,
        recompute=spec.compute.recompute,
        watch_loss=spec.remedies.watch_loss,
        in_place=spec.remedies.in_place,
        foresee=spec.forecast.restart_below is not None,
        compilation_directory=str(paths.compilations)
        if spec.compilation.cache
        else None,
        compilation_quota_bytes=spec.compilation.quota,
        rewind=spec.files.rewind,
        reduce=None if spec.microbatch.reduce == "off" else spec.microbatch.reduce,
    )


def _remedied(asked: Directive, spec: Spec, overrides: Overrides) -> Directive:
    """``asked``, with what remedies change in it."""
    plan, detour = overrides.plan, overrides.detour
    return replace(
        asked,
        slice_size=_slice_size(spec, overrides),
        calibrate=plan is not None and plan.calibrate,
        slice_ceiling=None if plan is None else plan.ceiling,
        restore_before_step=None if detour is None else detour.restore_before_step,
        skip=None if detour is None else detour.skip,
        rate_factor=1.0 if detour is None else detour.rate_factor,
        deterministic=overrides.deterministic,
        variables=variables(overrides),
        precision=overrides.precision or asked.precision,
    )


def answer_of(effect: AnswerFailure, spec: Spec) -> RecoveryAnswer:
    """What the attempt is told that asked about a failed step; ``spec``: that of its job."""
    overrides = effect.overrides or NOTHING
    plan, detour = overrides.plan, overrides.detour
    return RecoveryAnswer(
        number=effect.number,
        goes_on=effect.overrides is not None,
        because=effect.because,
        slice_size=_slice_size(spec, overrides),
        calibrate=plan is not None and plan.calibrate,
        slice_ceiling=None if plan is None else plan.ceiling,
        restore_before_step=None if detour is None else detour.restore_before_step,
        skip=None if detour is None else detour.skip,
        rate_factor=1.0 if detour is None else detour.rate_factor,
        prove=effect.prove,
    )


def _slice_size(spec: Spec, overrides: Overrides) -> int | None:
    plan = overrides.plan
    return spec.compute.slice if plan is None else plan.slice_size


def gpu_limit(
    spec: Spec,
    overrides: Overrides,
    gpus: Sequence[Gpu],
    visible: Sequence[str] | None,
) -> int | None:
    """Bytes that the framework may take on each GPU; None: there is no limit.

    The headroom of a remedy is one where the size of the GPUs is known.
    """
    used = named(spec.gpus, gpus) if visible is None else visible
    sizes = [one.memory.total for one in gpus if one.uuid in used and one.memory]
    if overrides.headroom is None or not sizes:
        return spec.memory.gpu
    limit = int((1.0 - overrides.headroom) * min(sizes))
    return min(limit, spec.memory.gpu or limit)


def incident_sentence(effect: RecordIncident) -> str:
    """An incident as one line for the log."""
    at = "" if effect.failed_step is None else f" at step {effect.failed_step}"
    unsaved = UNSAVED.get(effect.happened)
    if unsaved is not None:
        reasons = effect.diagnosis.because
        first = reasons[0].text.rstrip(".") if reasons else ""
        because = f": {shortened(first, 300)}" if first else ""
        rooms = [one.text.rstrip(".") for one in reasons if one.signature == ROOM]
        because += "".join(f" ({one[:1].lower()}{one[1:]})" for one in rooms)
        on_disk = effect.happened is IncidentKind.UNSAVED_ON_DISK
        full = on_disk and effect.diagnosis.cause is Cause.DISK_FULL
        do = ": make room on the disk of the state directory" if full else ""
        return f"attempt {effect.attempt}{at}: {unsaved}{because}; it trains on{do}"
    if effect.happened is IncidentKind.RECOVERED:
        why = verdict_sentence(effect.diagnosis)
        return f"attempt {effect.attempt}: a step failed{at}: {why}"
    if effect.happened is IncidentKind.PLANNED:
        return f"attempt {effect.attempt} was ended on purpose{at}, nothing was lost"
    return f"attempt {effect.attempt} failed{at}: {verdict_sentence(effect.diagnosis)}"
