"""An escalation of remedies: steps as values, each with its condition and reason.

``core.remediation.remedy_table`` holds the table, ``core.remediation.policy`` chooses from it.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.result import Diagnosis, RemedyKind
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.remediation.history import History
from supervisor.core.remediation.overrides import Overrides


class Allow(enum.StrEnum):
    """Changes to the computation that only a person may allow."""

    MIXED_PRECISION = "mixed_precision"
    SKIP_BATCHES = "skip_batches"
    LOWER_RATE = "lower_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyPermissions:
    """What a spec says about remedies."""

    allowed: frozenset[Allow] = frozenset()
    gpus: tuple[int | str, ...] | None = None
    """Those that the run may use; None: all of the box."""
    patience_seconds: float = 1800.0
    """How long to wait for a GPU that others use."""
    slice_size: int | None = None
    """Samples a slice where no remedy plans any; None: batches are whole."""
    precision: str | None = None
    """Keras' global dtype policy where no remedy sets one; None: the script's."""

    @property
    def asked(self) -> dict[str, object]:
        """What the spec asks for in place of what the script has, as incidents name it."""
        size = self.slice_size
        told = {
            "slices": None if size is None else f"of {size} samples",
            "precision": self.precision,
        }
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureContext:
    """A failed attempt, and all that a remedy step may look at. Nothing else decides."""

    diagnosis: Diagnosis
    evidence: Evidence
    history: History
    """The failed attempt is its newest."""
    overrides: Overrides
    """What was in force."""
    terms: RemedyPermissions = RemedyPermissions()
    gpus: tuple[Gpu, ...] = ()
    """The box after the end; empty: not known."""
    quarantined: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """What a remedy step makes of the overrides; ``because`` where it knows better why."""

    overrides: Overrides
    because: str | None = None


def always(_case: FailureContext) -> bool:
    """No condition."""
    return True


def same(case: FailureContext) -> Change:
    """Nothing is changed: a fresh process."""
    return Change(case.overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyStep:
    """One remedy."""

    name: str
    kind: RemedyKind
    does: str
    """What it does, for the table that is printed."""
    because: str
    """Why that may help."""
    change: Callable[[FailureContext], Change | None] = same
    """None: there is nothing (more) that it could change."""
    when: str = ""
    """``holds`` in words; empty: always."""
    holds: Callable[[FailureContext], bool] = always
    needs: frozenset[Allow] = frozenset()
    """One of these must be allowed; empty: the computation stays what it is."""
    uses: int | None = 1
    """How often it may be tried; None: as often as the budget allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationPlan:
    """The remedies of one situation, in order."""

    title: str
    remedy_steps: tuple[RemedyStep, ...]
    stop: str
    """Why nothing is left at the end of it."""
    climbs: bool = False
    """Whether a failure after progress goes on upwards; else it begins at the bottom,
    as one that may have nothing to do with the last."""
    quarantines: bool = False
    """Whether the GPU that failed is kept out of use on this box."""
