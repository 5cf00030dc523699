"""The proof of a resume, in the ``fit`` that resumes.

Nothing is saved before it is done: the newer snapshot must outlive whatever ends the
process. What differs cannot be taken back in here (a replay that went another way may
even have ended the ``fit``), so the process ends, and the next goes on from there.
"""

import time
from collections.abc import Callable
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.snapshots.manifest import MEMORY, Manifest
from supervisor.wire.snapshots.proof import Proof
from trainers.data import data_fingerprint
from trainers.files.rewind_report import listed
from trainers.fit.determinism import Determinism
from trainers.fit.resume import fit_snapshot
from trainers.fit.resume.fit_snapshot import FitParts
from trainers.snapshots import resume_proof
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import RunProgress
from trainers.snapshots.tensor_image import Tensor
from trainers.state import state_comparison
from trainers.state.state_comparison import Comparison

Capture = Callable[[], tuple[dict[str, Any], list[Tensor]]]
"""Gives the state as it would be saved now: JSON and tensors."""

PASSED = "training did not come by the place where the newer snapshot was taken"


Doubt = Callable[[Manifest], str | None]
"""Why a snapshot cannot be gone on from in this process; None: it can."""


def no_doubt(_taken: Manifest) -> None:
    """A new process can go on from any."""


class FitProof:
    """Which snapshot is to be met, and whether it was."""

    def __init__(self, session: RunProgress, promise: Determinism) -> None:
        self._session, self._attempt = session, session.attempt
        self._promise = promise
        self.newer: Snapshot | None = None
        """What training has to come to; None: there is no proof under way."""
        self.doubt: Doubt = no_doubt
        """Asked about the older snapshot, where the process is not a new one."""
        self._from_step = 0
        self._began = 0.0

    @property
    def under_way(self) -> bool:
        """Whether nothing may be saved, since it is not done."""
        return self.newer is not None

    def begin(
        self, newer: Snapshot, *, slices: int, data: data_fingerprint.Fingerprint
    ) -> Snapshot | None:
        """The older snapshot to begin with; None: there is no proof, which was told."""
        if not self._attempt.directive.prove:
            return None
        found = self._beginning(newer, slices=slices, data=data)
        if isinstance(found, str):
            self._say(Proof.SKIPPED, found, step=newer.manifest.step)
            return None
        self.newer, self._from_step = newer, found.manifest.step
        names = {found.entry.name, newer.entry.name}
        self._session.saver.pinned |= names
        self._session.saver.protected |= names
        self._say(Proof.BEGUN, "", step=newer.manifest.step)
        return found

    def _beginning(
        self, newer: Snapshot, *, slices: int, data: data_fingerprint.Fingerprint
    ) -> Snapshot | str:
        if self._promise.withdrawn is not None:
            return f"bits are not promised ({self._promise.withdrawn})"
        if never := self._attempt.files.never_put_back:
            return resume_proof.WRITTEN_TWICE.format(listed(sorted(never)))
        if told := self._attempt.tracker_runs:
            return resume_proof.LOGGED_TWICE.format(told[0])
        manifest, directive = newer.manifest, self._attempt.directive
        local: dict[str, Any] = fit_snapshot.local_of(newer)
        now = resume_proof.computation_of(directive)
        known = manifest.state.get(resume_proof.COMPUTATION) == now
        same_data = data_fingerprint.difference(local.get("data") or {}, data) is None
        if not known or not same_data or manifest.slices != slices:
            return resume_proof.OTHER_COMPUTATION
        found = resume_proof.beginning(
            newer, self._session.entries(), job=directive.job
        )
        if isinstance(found, str):
            return found
        return self.doubt(found.manifest) or found

    def stepped(self) -> None:
        """A step is done: the first, with all that is traced and compiled for it, is
        made by every resume, and is no part of what the proof takes."""
        if self._began == 0.0:
            self._began = time.perf_counter()

    def at_boundary(self, parts: FitParts) -> Proof:
        """``compare_at`` the boundary of a ``fit``."""
        position = parts.position
        return self.compare_at(
            (self._session.step, position.epoch, position.step_in_epoch),
            lambda: fit_snapshot.capture(parts, fit_done=False)[:2],
        )

    def compare_at(self, where: tuple[int, int, int], capture: Capture) -> Proof:
        """Compare what ``capture()`` gives, where this is the place (step, epoch, step
        in it); ``BEGUN``: it is not reached.

        Where it ``DIFFERS`` the caller ends the process. Where bits were not promised
        anyway there is nothing to be gained by that: training goes on as it came here.
        """
        newer = self.newer
        assert newer is not None  # noqa: S101  # it is under way
        wanted = newer.manifest
        there = (wanted.step, wanted.epoch, wanted.step_in_epoch)
        if where < there:
            return Proof.BEGUN
        if where > there:
            return self.missed()
        return self._done(state_comparison.compare(newer, *capture()))

    def missed(self) -> Proof:
        """``fit`` came past the place, or returned before it."""
        return self._done(Comparison(tensors=0, others=(PASSED,)))

    def _done(self, found: Comparison) -> Proof:
        assert self.newer is not None  # noqa: S101  # as above
        result = Proof.PROVED if found.equal else Proof.DIFFERS
        ends = not found.equal and self._promise.withdrawn is None
        seconds = time.perf_counter() - self._began if self._began else 0.0
        self._say(
            result,
            found.sentence,
            step=self.newer.manifest.step,
            steps=self.newer.manifest.step - self._from_step,
            tensors=found.tensors,
            seconds=seconds,
            ends=ends,
        )
        if not found.equal:
            self._promise.tell(why_withdrawn(found))
        if ends:
            return Proof.DIFFERS
        self._session.saver.pinned.discard(self.newer.entry.name)
        self.newer = None
        return Proof.PROVED if found.equal else Proof.SKIPPED

    def could_not(self, because: str, taken: Snapshot) -> None:
        """Not all of ``taken`` could be given back in this process: it is to end."""
        self.newer = self.newer or taken
        step = self.newer.manifest.step
        self._say(Proof.DIFFERS, because, step=step, steps=0, tensors=0, ends=True)

    def leave(self) -> None:
        """The process ends in the middle of it: what is on disk has to be the newer
        snapshot, for memory may not outlive what comes."""
        newer = self.newer
        if newer is not None and newer.entry.tier == MEMORY:
            self._session.keep_on_disk(newer)

    def _say(self, result: Proof, because: str, **fields: Any) -> None:
        self._attempt.say(
            RecordKind.PROOF,
            result=result,
            because=because,
            from_step=self._from_step,
            **fields,
        )


def why_withdrawn(found: Comparison) -> str:
    """Why bits are not promised any more."""
    return (
        "a resume was put to the proof, and did not continue to the bit:"
        f" {found.sentence} differ. {likeliest(found)}"
    )


def likeliest(found: Comparison) -> str:
    """Where to look for what the snapshot does not hold."""
    if found.others == (PASSED,):
        return (
            "A callback or the data decide when the training ends by state that no"
            " snapshot holds"
        )
    if found.variables:
        return (
            "Something that training depends on is in no snapshot: look for globals,"
            " closures, generators and files that the data, the step, losses, layers or"
            " callbacks change as they go"
        )
    if all(one.startswith("random") for one in found.others):
        return (
            "The random generators stand elsewhere: something draws from them at a pace"
            " that no snapshot holds"
        )
    return "The variables are the same: look at what callbacks keep, and at the logs"
