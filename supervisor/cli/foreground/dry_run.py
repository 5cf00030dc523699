"""``run --dry-run``: what would be done, and what stands against it."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass

from supervisor.cli.command_hint import command_hint
from supervisor.cli.options import fail, show
from supervisor.cli.state_directory import unwritable
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import SnapshotsSpec
from supervisor.core.jobs.spec_values import SnapshotInterval
from supervisor.core.text.units import format_duration, format_size
from supervisor.host.doctor.finding import Finding, FindingLevel
from supervisor.host.doctor.machine_checks import examine
from supervisor.host.ledger.ledger import Ledger, LedgerError
from supervisor.host.service.lock import acquire, holder
from supervisor.runtime.run_setup import Job, ResumeOptions, planned_start
from supervisor.wire.paths import StatePaths


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What ``run`` would do."""

    job: str
    start: str
    command: str
    python: str
    gpus: str
    memory: str
    snapshots: str
    state_directory: str


def plan_of(job: Job, paths: StatePaths, choice: ResumeOptions) -> DryRun:
    """By the spec and the ledger. Raises StartRefusedError, LedgerError."""
    spec = job.spec
    if (pid := _running(paths, job.name)) is not None:
        message = f"the job {job.name!r} is already run by process {pid}; see `{command_hint('status')}`"
        raise StartRefusedError(message)
    if paths.ledger.exists():
        with closing(Ledger(paths.ledger, read_only=True)) as ledger:
            start = planned_start(job, paths, ledger, choice)
    else:
        start = planned_start(job, paths, None, choice)
    limits = {"CPU tensors": spec.memory.cpu, "each GPU": spec.memory.gpu}
    told = [f"{format_size(size)} for {of}" for of, size in limits.items() if size]
    return DryRun(
        job=job.name,
        start=start,
        command=shlex.join([str(job.script), *spec.args]),
        python=str(spec.python or sys.executable),
        gpus=_gpus(spec.gpus),
        memory=", ".join(told) or "no limit of ours",
        snapshots=_snapshots(spec.snapshots),
        state_directory=str(paths.root),
    )


def _snapshots(spec: SnapshotsSpec) -> str:
    often = "planned from what one costs" if spec.every is None else _every(spec.every)
    if spec.remote is None:
        return often
    return f"{often}; sent to {spec.remote}, which is asked for newer ones at the start"


def _every(interval: SnapshotInterval) -> str:
    if interval.steps is not None:
        return f"every {interval.steps} steps, on disk"
    return f"every {format_duration(interval.seconds or 0.0)}, on disk"


def _gpus(given: tuple[int | str, ...] | None) -> str:
    if given is None:
        return "all that it sees"
    return ", ".join(map(str, given)) or "none"


def _running(paths: StatePaths, job: str) -> int | None:
    """Who supervises it now; None: nobody."""
    path = paths.lock(job)
    if not path.exists():
        return None
    lock = acquire(path, supervises=False)
    if lock is None:
        return holder(path)
    lock.release()
    return None


AGAINST = frozenset({FindingLevel.WARNING, FindingLevel.PROBLEM})


def tell_plan(
    job: Job, paths: StatePaths, choice: ResumeOptions, *, as_json: bool
) -> int:
    """Print it, with what ``check`` has against it; the exit code."""
    try:
        plan = plan_of(job, paths, choice)
    except StartRefusedError as error:
        fail(str(error))
    except LedgerError as error:
        fail(str(error), exit_code=1)
    # Tried last: where a run is refused anyway nothing is touched.
    against = unwritable(paths.root, wanted=paths.lock(job.name).parent)
    if against is not None:
        fail(against)
    found = examine(paths.root, python=plan.python, grace=job.spec.drain.grace)
    findings = [one for one in found if one.level in AGAINST]
    told = {**asdict(plan), "findings": [asdict(one) for one in findings]}
    show([told], _lines(plan, findings), as_json=as_json)
    return int(any(one.level is FindingLevel.PROBLEM for one in findings))


def _lines(plan: DryRun, against: list[Finding]) -> Iterator[str]:
    for name, text in asdict(plan).items():
        yield f"{name.replace('_', ' ')}: {text}"
    for one in against:
        yield f"{one.level}: {one.about}: {one.text}"
        if one.fix:
            yield f"  → {one.fix}"
    yield "nothing was started; without --dry-run it is"
