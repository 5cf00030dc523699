"""Directives for tests that start attempts by a launcher."""

from pathlib import Path
from uuid import uuid4

from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.host.ledger.ledger import RunRow
from supervisor.runtime.attempts.directive_builder import make_directive
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import RunPaths


def spec_of(script: Path, **tables: object) -> Spec:
    """The spec of a job that runs ``script`` where it lies, without a memory tier."""
    return build_spec(
        {
            "script": str(script),
            "working_directory": str(script.parent),
            "snapshots": {"memory": "off"},
            **tables,
        }
    )


def row_of(spec: Spec, job: str, *, number: int = 1) -> RunRow:
    """A run of ``job`` that no ledger knows."""
    return RunRow(
        id=1,
        run_id=uuid4().hex,
        job=job,
        number=number,
        script=spec.script,
        script_hash="",
        seed=7,
        spec=spec.model_dump(mode="json"),
        overrides=None,
        state=JobState.WAITING,
        message="",
        ended_at=None,
    )


def directive_of(spec: Spec, paths: RunPaths, job: str, *, attempt: int) -> Directive:
    """What an attempt is told."""
    row = row_of(spec, job)
    return make_directive(row, spec, paths, attempt, None, between_failures=86400.0)
