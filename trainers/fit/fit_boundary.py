"""The boundary between two steps of a ``fit``: the proof of a resume, the snapshot that is
due, and the end that was asked for."""

import time
from collections.abc import Callable

from supervisor.wire.page import Phase
from supervisor.wire.snapshots.proof import Proof
from trainers.backends.selected import backend
from trainers.fit.determinism import Determinism
from trainers.fit.due import DueSnapshot, SinceSaved
from trainers.fit.fit_slices import Slicing
from trainers.fit.resume import fit_snapshot
from trainers.fit.resume.fit_proof import FitProof
from trainers.fit.resume.fit_snapshot import FitParts
from trainers.process import signals
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import RunProgress

Parts = Callable[[], FitParts]
"""What to save. Given to each call, not kept: it leads to the model, which must be gone
once ``fit`` has returned."""


class Boundary:
    """Saves the state of one ``fit``, where it is whole."""

    def __init__(
        self,
        session: RunProgress,
        proof: FitProof,
        determinism: Determinism,
        slices: Slicing,
    ) -> None:
        self._session, self._attempt = session, session.attempt
        self._proof, self._determinism, self._slices = proof, determinism, slices
        self._since = SinceSaved(session)

    @property
    def on_disk(self) -> bool:
        """Whether no step was made since the last snapshot for the disk."""
        return self._since.on_disk

    def restored(self) -> None:
        """The state is that of a snapshot."""
        self._since.restored()

    def between_steps(self, parts: Parts) -> None:
        """Save if it is due, end if that was asked for."""
        if self._proof.under_way and not self._is_proved(parts()):
            return
        if self._attempt.drain_requested:
            if not self._since.on_disk:
                self._save(parts())
            self.leave()
        wanted = self._since.wanted()
        if wanted is None and self._dares():
            wanted = DueSnapshot(durable=False, patient=True)
        if wanted is not None:
            self._save(parts(), durable=wanted.durable, patient=wanted.patient)

    def finish(self, parts: Parts) -> None:
        """``fit`` returned: keep its end state, so that it is never trained again."""
        if self._proof.under_way:
            newer = self._proof.newer
            self._after_proof(self._proof.missed(), newer)
        self._save(parts(), fit_done=True)
        self._session.saver.wait()

    def leave(self) -> None:
        """End the process once everything is on disk."""
        self._proof.leave()
        self._session.saver.wait()
        signals.leave(self._attempt)

    # --- the proof -----------------------------------------------------------------

    def _is_proved(self, parts: FitParts) -> bool:
        """Whether the newest snapshot was met: until then nothing is saved."""
        if self._attempt.drain_requested:
            self.leave()
        newer = self._proof.newer
        with backend.variables.in_place(parts.call.model):
            found = self._proof.at_boundary(parts)
        if found is Proof.BEGUN:
            return False
        self._after_proof(found, newer)
        return True

    def _after_proof(self, found: Proof, newer: Snapshot | None) -> None:
        if found is Proof.DIFFERS:
            self.leave()
        self._session.put_files_back(newer)
        self._since.restored()

    # --- saving --------------------------------------------------------------------

    def _dares(self) -> bool:
        """Whether the next step may fail for want of memory, and a snapshot is cheap."""
        return self._session.memory is not None and self._slices.daring

    def _save(
        self,
        parts: FitParts,
        *,
        fit_done: bool = False,
        durable: bool = True,
        patient: bool = True,
    ) -> None:
        """Copy the state and let it be saved: in memory, and on disk if ``durable``.

        Not ``patient``: if there is no memory for it yet, that is made aside, and the
        state is saved at a later boundary.
        """
        with backend.variables.in_place(parts.call.model):
            self._save_now(parts, fit_done=fit_done, durable=durable, patient=patient)

    def _save_now(
        self, parts: FitParts, *, fit_done: bool, durable: bool, patient: bool
    ) -> None:
        session, position = self._session, parts.position
        parts.loss_guard.look(
            position.logs, step=session.step, epoch=position.epoch, due=True
        )
        began = time.perf_counter()
        before = self._attempt.enter(Phase.SNAPSHOT)
        state, tensors, told = fit_snapshot.capture(parts, fit_done=fit_done)
        for sentence in told:
            self._determinism.tell(sentence)
        state[fit_snapshot.WHY_NOT] = self._determinism.withdrawn
        if not patient and not session.saver.prepared(tensors):
            self._attempt.enter(before)
            return
        session.save(
            state,
            tensors,
            began=began,
            durable=durable,
            fit=session.fit_number,
            fit_done=fit_done,
            epoch=position.epoch,
            step_in_epoch=position.step_in_epoch,
            batch=parts.source.batch,
            slices=self._slices.count,
        )
        self._since.saved(durable=durable or session.memory is None)
        self._attempt.enter(before)
