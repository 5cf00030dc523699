"""The snapshot that a ``fit`` goes on from, until its state is given back."""

import contextlib
from collections.abc import Iterator
from typing import Any

from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data.data_fingerprint import Fingerprint
from trainers.data.data_source import DataSource
from trainers.fit.fit_position import FitCall
from trainers.fit.resume import fit_snapshot, snapshot_match
from trainers.fit.telemetry.step_counter import Steps
from trainers.fit.validation import Validation
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import RunProgress
from trainers.state import callback_state
from trainers.state.hidden import hidden_state


class FitResume:
    """What of a snapshot the call that begins still has to take."""

    def __init__(self, session: RunProgress) -> None:
        self._session, self._attempt = session, session.attempt
        self._taken: Snapshot | None = None
        self._local: Any = None
        self._was_held = False
        self.begin_with(session.middle_of(session.fit_number))

    def begin_with(self, taken: Snapshot | None) -> None:
        """Go on from ``taken``; None: from the beginning."""
        self._taken = taken
        self._local = fit_snapshot.local_of(taken)

    @property
    def taken(self) -> Snapshot | None:
        """The snapshot; None: there is none, or it was given back."""
        return self._taken

    @property
    def local(self) -> Any:
        """What ``fit`` itself knew in the snapshot, also once that was given back; None:
        there was none."""
        return self._local

    # --- whether it belongs to the call --------------------------------------------

    def check(self, batch: int | None, now: Fingerprint) -> str | None:
        """A snapshot of another try of this call is none to go on from; one of other
        data is, but bits cannot be promised: why, in a sentence. ``batch``: samples of
        the data that are there ``now``."""
        if self._taken is None:
            return None
        attempt = self._attempt
        if snapshot_match.belongs(
            self._taken, self._local, attempt=attempt, batch=batch
        ):
            return snapshot_match.check_data(attempt, self._local, now)
        self._session.set_aside(self._taken)
        self._taken = None
        attempt.notice(snapshot_match.OTHER_TRY)
        return None

    def other_compute(self, *, own_loop: bool = False) -> str | None:
        """Why bits are not promised where the table ``[compute]`` was changed."""
        if self._taken is None:
            return None
        state = self._taken.manifest.state
        return snapshot_match.check_compute(self._attempt, state, own_loop=own_loop)

    def other_device(self) -> list[str]:
        """Why bits are not promised where the snapshot is of another device."""
        if self._taken is None:
            return []
        return fit_snapshot.other_device(self._attempt, self._taken)

    def other_seeds(self) -> str | None:
        """Why bits are not promised where the script has set other seeds on its way."""
        return snapshot_match.check_seeds(self._taken)

    def told_before(self) -> list[str]:
        """Why bits were not promised any more when the snapshot was taken: what was
        withdrawn stays so, and is not put to the proof."""
        if self._taken is None:
            return []
        state = self._taken.manifest.state
        before: str | None = state.get(fit_snapshot.WHY_NOT)  # not of an older version
        told = [] if before is None else [before]
        return [*told, *hidden_state.told_of(state)]

    # --- where the loop goes on ----------------------------------------------------

    def start(self, model: Any) -> None:
        """Let Keras' ``fit`` of ``model`` begin with the epoch of the snapshot."""
        if self._taken is not None:
            keras_compat.start_at_epoch(model, self._local["epoch"])

    def take_position(
        self, source: DataSource, validation: Validation, call: FitCall
    ) -> dict[str, Any] | None:
        """Where the data continue: once, for the epoch that is resumed."""
        if self._taken is None:
            return None
        source.put_back(self._taken.tensors)
        source.put_order_back(self._local.get("order"))
        # First those of the validation: a shuffle that both come from counts them all,
        # and the iterator that is made next must be the last.
        validation.resume(self._local["validation"], call.validation_data)
        position: dict[str, Any] = self._local
        return position

    def give_back(self) -> Snapshot | None:
        """The snapshot, once: its state is about to be that of the model."""
        taken, self._taken = self._taken, None
        if taken is not None:
            self._was_held = self._local.get("held", False)
        return taken

    @contextlib.contextmanager
    def stand_in(self, steps: Steps, logs: Any, call: FitCall) -> Iterator[None]:
        """Around a step that is not run: Keras' loop is then as it was after the last
        one, which returned ``logs``, and no callback of the script's hears of it."""
        steps.instead = dict(logs)
        try:
            with callback_state.deaf(call.callbacks):
                yield
        finally:
            steps.instead = None
        if not self._was_held:
            backend.variables.take_over(call.model)
