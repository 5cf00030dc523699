"""The advisor of one attempt: gathers evidence, and tells when advice has changed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from supervisor.core.advisories.advisory import Advisory
from supervisor.core.advisories.gpu_evidence import GpuEvidence, gpus_of
from supervisor.core.advisories.next_peak import (
    MemoryAhead,
    PhaseNeeds,
    in_use_now,
)
from supervisor.core.advisories.rules import advise, followed
from supervisor.core.advisories.run_evidence import (
    NO_GPUS,
    NO_REQUESTS,
    BatchMemory,
    RunEvidence,
)
from supervisor.core.advisories.workspace_requests import WorkspaceRequests
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.lifecycle.events import Advised
from supervisor.host.telemetry.attempt_view import AttemptView
from supervisor.wire.page import Page, Phase
from supervisor.wire.readings import unpack
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.step_evidence import StepEvidence

STEPPING = frozenset({Phase.TRAINING, Phase.REPLAYING})
"""In these phases the GPUs should be at work."""


@dataclass(kw_only=True)
class Advisor:
    """Looks at what an attempt and its GPUs show.

    Figures of GPUs are others at each look: they are told with what training tells
    (seldom), or where another advisory holds.
    """

    advisories: tuple[Advisory, ...] = ()
    """What holds, or held, as far as it was told."""
    _gpus: GpuEvidence = NO_GPUS
    _sample: tuple[Gpu, ...] = ()
    """The newest that was looked at."""
    _told_of: tuple[StepEvidence | None, NearLimit | None] = (None, None)

    def see_gpus(
        self,
        sample: tuple[Gpu, ...],
        page: Page | None,
        *,
        named: Collection[str],
        ours: Collection[int],
    ) -> None:
        """Take in a ``sample`` of the driver; ``named``: the GPUs that the run may use,
        ``ours``: the processes of the attempt."""
        if (
            not sample
            or sample is self._sample
            or page is None
            or page.phase not in STEPPING
        ):
            return
        self._sample = sample
        own = gpus_of(sample, named=named, ours=ours)
        usable = sum(gpu.uuid in named and not gpu.lost for gpu in sample)
        self._gpus = replace(self._gpus, usable=usable).seen(own, ours=ours)

    def look(
        self,
        view: AttemptView,
        page: Page | None = None,
        *,
        workspace: WorkspaceRequests = NO_REQUESTS,
    ) -> Sequence[Advised]:
        """What is to be said now: nothing, or all that holds or held."""
        memory = None if page is None else _memory(page)
        evidence = RunEvidence(
            steps=view.evidence,
            memory=memory,
            gpus=self._gpus,
            near_limit=view.near_limit,
            ahead=None if page is None else _ahead(view.phase_needs, page),
            workspace=workspace,
        )
        found = followed(self.advisories, advise(evidence))
        told = view.evidence, view.near_limit
        news = told != self._told_of or _held(found) != _held(self.advisories)
        if not news or found == self.advisories:
            return ()
        self._told_of, self.advisories = told, found
        return (Advised(found),)


def _held(advisories: Sequence[Advisory]) -> set[tuple[str, bool]]:
    return {(one.kind, one.over) for one in advisories}


def _ahead(needs: PhaseNeeds, page: Page) -> MemoryAhead | None:
    """None: no epoch has begun whose memory is told, or there is no limit."""
    limit = page.memory_limit_bytes
    if needs.epoch is None or not limit:
        return None
    readings = unpack(page.memory_recent, after_ns=0)
    return MemoryAhead(
        needs=needs,
        in_use_bytes=in_use_now(needs.epoch, readings),
        limit_bytes=limit,
        sliced=(page.slices or 1) > 1,
        steps_left=_steps_left(page),
        steps_per_epoch=page.steps_per_epoch,
    )


def _steps_left(page: Page) -> int | None:
    """Of the epoch that is under way."""
    total, done = page.steps_per_epoch, page.step_in_epoch
    return None if total is None or done is None else max(total - done, 0)


def _memory(page: Page) -> BatchMemory | None:
    """None: not known, or the batch is worked through in slices."""
    batch, limit = page.effective_batch, page.memory_limit_bytes
    peak = page.memory_peak_bytes
    if not (batch and limit and peak) or (page.slices or 1) > 1:
        return None
    return BatchMemory(batch=batch, peak_bytes=peak, limit_bytes=limit)
