"""The evidence that advisories are drawn from. None, and empty: not measured."""

from dataclasses import dataclass

from supervisor.core.advisories.gpu_evidence import GpuEvidence
from supervisor.core.advisories.next_peak import MemoryAhead
from supervisor.core.advisories.workspace_requests import WorkspaceRequests
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.step_evidence import StepEvidence

NO_GPUS = GpuEvidence()
NO_REQUESTS = WorkspaceRequests()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMemory:
    """Device memory of whole steps of one batch that is worked through at once."""

    batch: int
    """Samples."""
    peak_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """What is known of one attempt."""

    steps: StepEvidence | None = None
    memory: BatchMemory | None = None
    gpus: GpuEvidence = NO_GPUS
    near_limit: NearLimit | None = None
    ahead: MemoryAhead | None = None
    workspace: WorkspaceRequests = NO_REQUESTS
