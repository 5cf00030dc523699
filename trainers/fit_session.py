"""What all calls of ``fit`` of a process share: the snapshots, and which call this is."""

import hashlib
import time
from pathlib import Path
from typing import Any

from supervisor.wire.events import Kind
from supervisor.wire.manifest import FORMAT, Manifest
from trainers import resume, snapshot
from trainers.attempt import Attempt
from trainers.cadence import Cadence
from trainers.saver import Saved, Saver
from trainers.snapshot import Snapshot, Store
from trainers.tensors import Tensor


class Session:
    """The run as the training process sees it."""

    def __init__(self, attempt: Attempt) -> None:
        """Open the snapshots and choose where to go on.

        Raises:
            OSError: the snapshot directory cannot be used.
            snapshot.DirectoryTakenError: another process uses it.
        """
        directive = attempt.directive
        self.attempt = attempt
        self.store = Store(
            Path(directive.snapshot_directory),
            job=directive.job,
            kept=directive.snapshots_kept,
        )
        self.plan = resume.Plan()
        if directive.restore:
            self.plan = resume.choose(
                self.store, before_step=directive.restore_before_step
            )
        for damaged in self.plan.quarantined:
            attempt.notice(
                f"snapshot {damaged['snapshot']} is damaged and set aside:"
                f" {damaged['because']}"
            )
        self.saver = Saver(self.store, self._saved, protected=set(self.plan.names))
        self.cadence = Cadence(
            every_steps=directive.snapshot_every_steps,
            every_seconds=directive.snapshot_every_seconds,
        )
        self.fit_number = 0
        """Which call of ``fit`` is running or comes next, from 0."""
        self.step = 0
        """Steps done since the run began."""
        self.samples = 0
        self.stall_seconds: float | None = None
        """How long the newest snapshot held training up."""
        self._serial = self.store.next_serial() - 1
        self._count = 0
        attempt.wait_for_saver = self.saver.wait

    def end_of(self, fit: int) -> Snapshot | None:
        """The end state of call ``fit``, if an earlier attempt finished it."""
        return self.plan.finished.get(fit)

    def middle_of(self, fit: int) -> Snapshot | None:
        """The snapshot to go on from in call ``fit``; handed out once."""
        newest = self.plan.newest
        if newest is None or newest.manifest.fit_done or newest.manifest.fit != fit:
            return None
        self.plan.newest = None
        return newest

    def restored(self, taken: Snapshot, *, seconds: float) -> None:
        """Go on counting from ``taken`` and say so."""
        manifest = taken.manifest
        self.step, self.samples = manifest.step, manifest.samples
        self.attempt.last_saved.update(step=manifest.step, snapshot=taken.entry.name)
        self.attempt.set(
            step=self.step,
            samples=self.samples,
            snapshot_step=manifest.step,
            snapshot_ns=time.monotonic_ns(),
        )
        self.attempt.say(
            Kind.RESTORED,
            snapshot=taken.entry.name,
            step=manifest.step,
            fit=manifest.fit,
            epoch=manifest.epoch,
            seconds=seconds,
            quarantined=self.plan.quarantined,
        )
        self.plan.quarantined = []

    def save(
        self,
        state: dict[str, Any],
        tensors: list[Tensor],
        *,
        began: float,
        **position: Any,
    ) -> None:
        """Start saving; ``position``: the fields of the manifest that tell where.

        ``began``: when training stopped for it, by ``time.perf_counter``.
        """
        self._serial += 1
        directive = self.attempt.directive
        manifest = Manifest(
            format=FORMAT,
            job=directive.job,
            attempt=directive.attempt,
            serial=self._serial,
            step=self.step,
            samples=self.samples,
            tensors_bytes=0,
            tensors_hash="",
            wall_time=time.time(),
            state={**state, "script": script_hash(directive.script)},
            **position,
        )
        self.stall_seconds = self.saver.save(tensors, manifest, began=began)

    def _saved(self, saved: Saved) -> None:
        """From the saving thread: publish what became of a snapshot."""
        manifest, error = saved.manifest, saved.error
        if saved.entry is None:
            self.attempt.say(
                Kind.SNAPSHOT_FAILED,
                step=manifest.step,
                because=str(error),
                errno=None if error is None else error.errno,
            )
            return
        self._count += 1
        name = saved.entry.name
        self.attempt.last_saved.update(step=manifest.step, snapshot=name)
        self.attempt.set(
            snapshot_step=manifest.step,
            snapshot_ns=time.monotonic_ns(),
            snapshots=self._count,
        )
        self.attempt.say(
            Kind.SNAPSHOT,
            snapshot=name,
            step=manifest.step,
            bytes=saved.nbytes,
            stall_seconds=saved.stall_seconds,
            seconds=saved.seconds,
        )


def script_hash(script: str) -> str | None:
    """The hash of the script's file; None if it cannot be read."""
    try:
        content = Path(script).read_bytes()
    except OSError:
        return None
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def open_session(attempt: Attempt) -> Session:
    """The session of this process, made at the first ``fit``. Raises as ``Session``."""
    return Session(attempt)


__all__ = ["Session", "open_session", "script_hash", "snapshot"]
