"""A run as a remote store tells of it: checked like a spec, before anything of it is kept.

What lies in a store may be damaged, of another version, or written by who should not have.
Of it come numbers and what remedies put in force; never a path, a variable or an argument.
What changes the computation is taken over only where the spec here allows a remedy to.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.spec import Table
from supervisor.core.remediation.escalation import Allow
from supervisor.core.remediation.overrides import MIXED

SEED_BITS = 63
"""As SQLite has them."""
_STEPS = 10**18
_SAMPLES = 2**31
_BYTES = 2**62
_LEAST_RSS = 1 << 20
LONGEST = 100
"""Names of fields that are longer are none of ours, and not repeated."""


class ForeignRunError(ValueError):
    """A record that a run here must not go on by; the text says why."""


def _printable(value: str) -> str:
    if value.isprintable():
        return value
    message = "expected text without control characters"
    raise ValueError(message)


_Word = Annotated[str, Field(max_length=255), AfterValidator(_printable)]
"""For people, or only compared."""
_Samples = Annotated[int, Field(ge=1, le=_SAMPLES)]
_Step = Annotated[int, Field(ge=0, lt=_STEPS)]


class _ForeignPlan(Table):
    slice_size: _Samples | None = None
    slices: _Samples
    calibrate: bool
    ceiling: _Samples | None = None
    because: Annotated[str, Field(max_length=1000), AfterValidator(_printable)]


class _ForeignDetour(Table):
    restore_before_step: _Step
    skip: Annotated[tuple[_Step, _Step], Field(strict=False)] | None = None
    rate_factor: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0


class ForeignOverrides(Table):
    """``core.remediation.overrides.Overrides`` of a supervisor on another machine."""

    plan: _ForeignPlan | None = None
    async_allocator: bool = False
    growth: bool = False
    headroom: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    workspace_mib: Annotated[int, Field(ge=0, le=2**20)] | None = None
    autotune_off: bool = False
    deterministic: bool = False
    precision: Literal["mixed_bfloat16"] | None = None
    avoid: Annotated[tuple[str, ...], Field(max_length=0, strict=False)] = ()
    """The GPUs of another machine are none of ours."""
    recycle_bytes: Annotated[int, Field(ge=_LEAST_RSS, le=_BYTES)] | None = None
    detour: _ForeignDetour | None = None
    awaited: None = None


class _ForeignRun(Table):
    run_id: Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]
    """Part of the name of a directory."""
    seed: Annotated[int, Field(ge=0, lt=2**SEED_BITS)]
    script_hash: _Word
    state: Annotated[JobState, Field(strict=False)]
    host: _Word
    version: _Word
    overrides: ForeignOverrides | None = None


def check_foreign_run(record: Mapping[str, Any], *, allowed: Collection[Allow]) -> None:
    """Whether a run may go on by this ``record``; ``allowed``: what the spec here lets
    remedies change of the computation.

    Raises:
        ForeignRunError: it must not; names the field.
    """
    known = {name: record.get(name) for name in _ForeignRun.model_fields}
    try:
        run = _ForeignRun.model_validate(known)
    except ValidationError as error:
        message = _sentence(error)
        raise ForeignRunError(message) from error
    missing = sorted(_needed(run.overrides or ForeignOverrides()) - set(allowed))
    if missing:
        message = (
            "it needs what the spec here does not allow remedies to change: "
            + ", ".join(f"remedies.{one}" for one in missing)
        )
        raise ForeignRunError(message)


def _needed(overrides: ForeignOverrides) -> set[Allow]:
    """Permissions without which no remedy here would have put this in force."""
    detour = overrides.detour
    needs = {
        Allow.MIXED_PRECISION: overrides.precision == MIXED,
        Allow.SKIP_BATCHES: detour is not None and detour.skip is not None,
        Allow.LOWER_RATE: detour is not None and detour.rate_factor != 1.0,
    }
    return {allow for allow, needed in needs.items() if needed}


def _sentence(error: ValidationError) -> str:
    """The first problem, without the value: that is of strangers."""
    first = error.errors(include_url=False, include_input=False)[0]
    parts = [str(part) for part in first["loc"]]
    where = ".".join(parts)
    if not where.isprintable() or len(where) > LONGEST:
        where = f"{parts[0]}: a field"
    return f"{where}: {first['msg']}"
