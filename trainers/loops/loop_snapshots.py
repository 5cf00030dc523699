"""The snapshots of a loop that is followed: saved, proved, set aside."""

import time
from collections.abc import Callable
from typing import Any

from supervisor.wire.snapshots.manifest import MEMORY
from supervisor.wire.snapshots.proof import Proof
from trainers.backends.selected import backend
from trainers.fit.determinism import Determinism
from trainers.fit.due import SinceSaved
from trainers.fit.resume.fit_proof import FitProof
from trainers.loops import loop_state
from trainers.loops.loop_recorder import LoopRecorder
from trainers.loops.loop_state import RecordedLoop
from trainers.process import signals
from trainers.snapshots import durable_store
from trainers.snapshots.durable_store import (
    ABANDONED,
    DamagedError,
    Snapshot,
    SnapshotEntry,
)
from trainers.snapshots.run_progress import LOOP, RunProgress

LOOK_SECONDS = 0.02
"""Whether a snapshot is due is not asked more often, unless it is asked for by steps."""
LEFT = ".loop-left"
"""In the directory of the snapshots: this run's loop did not go the same way twice."""


class LoopSnapshots:
    """What is saved of a loop, between two of its calls."""

    loop: RecordedLoop
    recorder: LoopRecorder

    def __init__(
        self,
        session: RunProgress,
        promise: Determinism,
        proof: FitProof,
        show: Callable[[], None],
    ) -> None:
        """``show``: publish how far the loop is."""
        self._session, self._attempt = session, session.attempt
        self._promise, self._proof, self._show = promise, proof, show
        self._looked = 0.0
        self.since = SinceSaved(session)

    def boundary(self, later: Snapshot | None) -> None:
        """Save if it is due, end if that was asked for.

        ``later``: a snapshot of a later loop or fit, whose place what is saved here
        would take. Raises NotFollowedError, UnsavableError: nothing more can be saved.
        """
        if self._proof.under_way and not self._is_proved():
            return
        if self._attempt.drain_requested:
            if later is None and not self.since.on_disk:
                self._save(durable=True, patient=True)
            self.leave(later)
        if later is not None:
            return
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS or self._session.schedule.by_steps:
            self._looked = now
            wanted = self.since.wanted()
            if wanted is not None:
                self._save(durable=wanted.durable, patient=wanted.patient)

    def _is_proved(self) -> bool:
        if self._attempt.drain_requested:
            self.leave()
        self.recorder.flush()
        newer, count = self._proof.newer, self.loop.log.count
        with backend.calls.quiet():
            where = self._session.step, 0, count
            found = self._proof.compare_at(where, self._captured)
        if found is Proof.BEGUN:
            return False
        if found is Proof.DIFFERS:
            self.leave()
        self._session.put_files_back(newer)
        self.since.restored()
        return True

    def _captured(self) -> tuple[dict[str, Any], list[Any]]:
        with backend.calls.quiet():
            return loop_state.capture(self.loop, why_not=self._promise.withdrawn)

    def _save(self, *, durable: bool, patient: bool) -> None:
        began = time.perf_counter()
        self.recorder.flush()
        state, tensors = self._captured()
        with backend.calls.quiet():
            if not patient and not self._session.saver.prepared(tensors):
                return
            self._session.save(
                state,
                tensors,
                began=began,
                durable=durable,
                fit=self._session.fit_number,
                fit_done=False,
                epoch=0,
                step_in_epoch=self.loop.log.count,
                batch=None,
                slices=1,
            )
        self.since.saved(durable=durable or self._session.memory is None)
        self._show()

    def leave(self, kept: Snapshot | None = None) -> None:
        """End the process once everything is on disk; ``kept``: to go on from."""
        if kept is not None:
            self._session.keep_on_disk(kept)
            step, name = kept.manifest.step, kept.entry.name
            self._attempt.training.is_saved(step=step, snapshot=name)
        self._proof.leave()
        self._session.saver.wait()
        self._show()
        signals.leave(self._attempt)

    def were_left(self) -> bool:
        """Whether the loop of an earlier attempt did not go the same way twice."""
        return (self._session.store.directory / LEFT).exists()

    def set_all_aside(self) -> None:
        """Go on from none of a loop, and let the next attempt know."""
        for entry in self._session.entries():
            self._set_aside(entry)
        (self._session.store.directory / LEFT).touch()

    def _set_aside(self, entry: SnapshotEntry) -> None:
        """If it is of a loop."""
        memory, store = self._session.memory, self._session.store
        try:
            manifest = durable_store.describe(entry, job=store.job)
        except DamagedError:
            return
        if LOOP not in manifest.state:
            return
        if entry.tier == MEMORY and memory is not None:
            memory.remove(entry)
        else:
            store.set_aside(entry, ABANDONED)
