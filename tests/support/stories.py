"""Runs that fail again and again, as the remedies see them."""

from dataclasses import replace
from typing import Any

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.result import Diagnosis, Reason
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess, MigDevice
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.fit_memory import FitMemory
from supervisor.core.memory.oom_analysis import OomAnalysis
from supervisor.core.remediation.escalation import Allow, RemedyPermissions
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.remediation.policy import Decision, Policy

GIB = 1 << 30
NO_FIT = FitMemory()
"""Nothing was measured."""
BACK_OFF = BackOff(first_seconds=1.0, most_seconds=60.0)


def gpu(index: int, *processes: GpuProcess) -> Gpu:
    """A GPU of this box."""
    uuid = f"GPU-{index}"
    return Gpu(
        uuid=uuid,
        index=index,
        memory=GpuMemory(total=16 * GIB, used=0, free=16 * GIB),
        processes=processes,
    )


def part(uuid: str) -> MigDevice:
    """A slice of a GPU that programs see as a device."""
    return MigDevice(uuid=uuid, instance=1, compute_instance=0, memory=None)


TENANT = GpuProcess(pid=99, name="blender", bytes=8 * GIB)


class Story:
    """A run that fails again and again, and what is done each time."""

    def __init__(
        self,
        cause: Cause,
        *,
        gpus: tuple[Gpu, ...] = (),
        batch: int | None = 64,
        quarantined: frozenset[str] = frozenset(),
        only: tuple[int | str, ...] | None = None,
        allowed: frozenset[Allow] = frozenset(),
    ) -> None:
        self.cause, self.gpus, self.batch = cause, gpus, batch
        self.policy = Policy(
            run_id="r",
            without_progress=3,
            back_off=BACK_OFF,
            terms=RemedyPermissions(gpus=only, allowed=allowed),
        )
        self.history, self.overrides = History(), NOTHING
        self.quarantined = quarantined

    def fail(
        self,
        *,
        step: int | None = 10,
        snapshot: int | None = 0,
        memory: MemoryFigures | None = None,
        rss: int | None = None,
        autopsy: OomAnalysis | None = None,
        signature: str = "x",
        fit: FitMemory = NO_FIT,
        **evidence: Any,
    ) -> Decision:
        """One more attempt that ends for the cause; ``fit``: what it measured."""
        number = len(self.history.attempts) + 1
        last = AttemptHistory(
            number=number,
            cause=self.cause,
            last_step=step,
            restored_step=snapshot,
            snapshot_step=snapshot,
            batch=self.batch,
            rss_bytes=rss,
            slice_size=fit.slice_size,
            peaks=fit.peaks,
            limit_bytes=fit.limit_bytes,
        )
        self.history = replace(self.history, attempts=(*self.history.attempts, last))
        reason = Reason("record 17 is corrupt", signature)
        known: dict[str, Any] = {"steps_done": 5, "gpus": self.gpus, **evidence}
        verdict = self.policy.decide(
            Diagnosis(
                cause=self.cause, because=(reason,), memory=memory, autopsy=autopsy
            ),
            Evidence(exit=None, **known),
            self.history,
            self.overrides,
            quarantined=self.quarantined,
        )
        self.overrides = verdict.overrides
        self.history = self.history.updated(
            remedy=verdict.remedy.kind, remedy_step=verdict.remedy_step
        )
        self.quarantined |= set(verdict.quarantine)
        return verdict

    def remedy_steps(self, times: int, **fields: Any) -> list[str | None]:
        """The remedy steps of so many failures without progress."""
        return [self.fail(**fields).remedy_step for _ in range(times)]
