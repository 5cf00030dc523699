"""The progress of a run through its calls of ``fit``, and the snapshots they share."""

import os
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import NO_ROOM, RecordKind
from supervisor.wire.messages.directive import Directive
from supervisor.wire.snapshots.manifest import (
    DURABLE,
    FORMAT,
    MEMORY,
    TENSORS,
    Manifest,
)
from supervisor.wire.snapshots.seal import hash_of
from trainers.process import applied_directive
from trainers.process.attempt_reporting import Attempt
from trainers.process.script import unrepeatable_draws
from trainers.snapshots import durable_store, resume_proof, selection
from trainers.snapshots.durable_store import Snapshot, SnapshotEntry, Store
from trainers.snapshots.measured_costs import (
    MeasuredCosts,
    StepsBesideSaving,
    TierCosts,
)
from trainers.snapshots.memory_store import MemoryTier, NoMemoryTierError
from trainers.snapshots.schedule import (
    Due,
    Interval,
    IntervalPlan,
    SnapshotSchedule,
)
from trainers.snapshots.snapshot_reports import SnapshotNews
from trainers.snapshots.tensor_image import Tensor
from trainers.snapshots.writer import Saved, SnapshotWriter

LATER_TRY = (
    "the snapshot belongs to a later try of this fit: the script caught an exception of"
    " the one before, so that one is done again first"
)

OWN_WAY = (
    "the script has read {}, which it wrote in training, as it began again: it may go on"
    " by what is in there. So no earlier call of fit is given back to it, and the call"
    " that was cut short, if it is made again, begins anew"
)

LOOP = "loop"
"""Key of the manifest's state: the snapshot is of a loop of the script's own."""

NEWS = 1.5
"""A plan is told again when an interval changed by this factor."""


class RunProgress:
    """The run as the training process sees it."""

    def __init__(self, attempt: Attempt) -> None:
        """Open the snapshots and choose where to go on.

        Raises:
            OSError: the snapshot directory cannot be used.
            durable_store.DirectoryTakenError: another process uses it.
        """
        directive = attempt.directive
        self.attempt = attempt
        self.store = Store(
            Path(directive.snapshot_directory),
            job=directive.job,
            kept=directive.snapshots_kept,
            quota_bytes=directive.snapshot_quota_bytes,
        )
        self.memory = self._memory_tier(directive)
        self.plan = self._choose(directive)
        self.saver = self._writer(directive)
        if self.plan.newest is not None and self.plan.newest.manifest.fit_done:
            self.plan.newest = None  # it is among the finished ones, and let go with it
        self.schedule = schedule_of(directive, memory=self.memory is not None)
        self._news = SnapshotNews(partial(attempt.say, RecordKind.SNAPSHOT))
        self._measured = MeasuredCosts(cores=len(os.sched_getaffinity(0)))
        self._steps = StepsBesideSaving()
        self._asked_at_step = 0
        self._planned: IntervalPlan | None = None
        self._plans_anew = True
        """What snapshots cost, or where they are kept, has changed since."""
        self._told_plan: IntervalPlan | None = None
        self.fit_number = 0
        """Which call of ``fit`` is running or comes next, from 0."""
        self.tries = 0
        """How often that call raised an exception that the script caught."""
        self.step = 0
        """Steps done since the run began."""
        self.samples = 0
        self._serial = self._last_serial()
        self._count = 0
        self._published = 0
        self._went_back_to: str | None = None
        """The snapshot that was last gone on from within this process."""
        self.own_way: str | None = None
        """Why nothing is given back although there is something."""
        self._let_script_go_on()
        attempt.end.wait_for(self.saver.wait)

    def _choose(self, directive: Directive) -> selection.ResumePlan:
        """What to go on from."""
        if not directive.restore:
            return selection.ResumePlan()
        before = directive.restore_before_step
        plan = selection.choose(self.store, memory=self.memory, before_step=before)
        applied_directive.tell(
            self.attempt, "restore_before_step", asked=before, found=before
        )
        for damaged in plan.quarantined:
            self.attempt.notice(
                f"snapshot {damaged['snapshot']} is damaged and set aside:"
                f" {damaged['because']}"
            )
        return plan

    def _writer(self, directive: Directive) -> SnapshotWriter:
        """Who saves; what is gone on from is not pruned."""
        return SnapshotWriter(
            self.store,
            self._saved,
            protected=set(self.plan.names),
            memory=self.memory,
            refused=self._without_memory,
            beyond_quota=self._beyond_quota,
            pinned=set(self.plan.in_memory),
            beside=directive.memory_limit_bytes is None,
        )

    def _let_script_go_on(self) -> None:
        """A script that skips what it finds done makes other calls of fit than before:
        by their number it would get the state of another one."""
        read, ends = self.attempt.files.read_back, self.plan.finished
        if read is None or not ends:
            return
        last = ends[max(ends)].manifest
        self.fit_number, self.step, self.samples = last.fit + 1, last.step, last.samples
        self.plan = selection.ResumePlan()
        self.own_way = OWN_WAY.format(Path(read).name)
        self.attempt.notice(self.own_way)

    def _memory_tier(self, directive: Directive) -> MemoryTier | None:
        if directive.memory_directory is None:
            return None
        try:
            return MemoryTier(
                Path(directive.memory_directory),
                job=directive.job,
                durable=self.store.directory,
            )
        except NoMemoryTierError as error:
            if error.number in NO_ROOM:
                self._tell_of_failure(MEMORY, None, error, error.number)
            else:  # a choice of place that cannot be: nothing that may pass
                self.attempt.notice(str(error))
            return None

    def _tell_of_failure(
        self, tier: str, step: int | None, because: Exception | None, number: int | None
    ) -> None:
        self.attempt.say(
            RecordKind.SNAPSHOT_FAILED,
            step=step,
            tier=tier,
            because=str(because),
            errno=number,
        )

    def _without_memory(self, error: NoMemoryTierError) -> None:
        """There is no room for the memory tier (any more)."""
        self._tell_of_failure(MEMORY, self.step, error, error.number)
        self.memory = None
        self.schedule = replace(self.schedule, memory=None)
        self._plans_anew = True

    def _beyond_quota(self, nbytes: int) -> None:
        """Tell it once: what is needed takes more than the quota."""
        if not self.attempt.is_news("beyond quota"):
            return
        ends = len(self.saver.protected)
        self.attempt.notice(
            f"the snapshots that are needed take {nbytes / 2**20:.1f} MiB more than the"
            f" quota: the newest one, and {ends} that are in use or the end of a fit"
            " (each is kept, so that no fit is trained twice)"
        )

    def _last_serial(self) -> int:
        inside = [] if self.memory is None else self.memory.entries()
        serials = [entry.serial for entry in inside]
        return max([*serials, self.store.next_serial() - 1])

    def durable_step(self) -> int:
        """Step of the newest snapshot on disk; -1: there is none."""
        entries = self.store.entries()
        return entries[0].step if entries else -1

    def due(self, *, memory: tuple[int, float], durable: tuple[int, float]) -> Due:
        """Which tiers are to have a snapshot now (see ``SnapshotSchedule.due``). Asked at
        each boundary that is looked at."""
        saver = self.saver
        saving = saver.busy or (self.memory is None and saver.writing)
        steps, self._asked_at_step = self.step - self._asked_at_step, self.step
        lost = self._steps.passes(time.perf_counter(), steps=steps, saving=saving)
        if lost is not None:
            self._alone.lost.append(lost)
            self._plans_anew = True
        return self.schedule.due(self._plan(), memory=memory, durable=durable)

    @property
    def _alone(self) -> TierCosts:
        """Of the tier that a snapshot may be in alone."""
        measured = self._measured
        return measured.durable if self.memory is None else measured.memory

    def _plan(self) -> IntervalPlan:
        """The intervals to keep; told whenever they are news."""
        if self._planned is not None and not self._plans_anew:
            return self._planned
        self._plans_anew = False  # first: the saving thread may say so again meanwhile
        costs = replace(self._measured.costs, following=self._steps.following)
        self._planned = plan = self.schedule.plan(costs)
        if _is_news(plan, self._told_plan):
            self._told_plan = plan
            self.attempt.say(RecordKind.SNAPSHOT_PLAN, **asdict(plan))
        return plan

    def end_of(self, fit: int) -> Snapshot | None:
        """The end state of call ``fit``, if an earlier attempt finished it."""
        end = self.plan.finished.get(fit)
        known = end is not None and self._is_of_this_try(end.manifest.state)
        return end if known else None

    def middle_of(self, fit: int) -> Snapshot | None:
        """The snapshot to go on from in call ``fit``; handed out once."""
        newest = self.plan.newest
        if newest is None or newest.manifest.fit_done or newest.manifest.fit != fit:
            return None
        if LOOP in newest.manifest.state:  # before it
            return None
        if not self._is_of_this_try(newest.manifest.state):
            return None
        self.plan.newest = None
        return newest

    def _is_of_this_try(self, state: dict[str, Any]) -> bool:
        tries = state.get("tries", 0)
        if tries > self.tries:
            self.attempt.notice(LATER_TRY)
        return bool(tries == self.tries)

    def newest_of(self, fit: int) -> Manifest | None:
        """What the newest snapshot says of itself, if call ``fit`` can be taken up from
        it; None: it cannot."""
        self.saver.wait()
        entries = sorted(self.entries(), key=lambda one: one.serial)
        try:
            newest = durable_store.describe(entries[-1], job=self.store.job)
        except (IndexError, durable_store.DamagedError):
            return None
        middle = newest.fit == fit and not newest.fit_done
        known = middle and LOOP not in newest.state
        return newest if known and self._is_of_this_try(newest.state) else None

    def go_back(self) -> Snapshot | None:
        """The snapshot of the present call to go on from, by the present directive, as a
        new process would choose it; None: there is none."""
        before = self.attempt.directive.restore_before_step
        found = selection.choose(self.store, memory=self.memory, before_step=before)
        applied_directive.tell(
            self.attempt, "restore_before_step", asked=before, found=before
        )
        newest = found.newest
        if newest is None or newest.manifest.fit != self.fit_number:
            return None
        self.plan.newest, self.plan.quarantined = newest, found.quarantined
        if self._went_back_to is not None:
            self.saver.protected.discard(self._went_back_to)
        self._went_back_to = newest.entry.name
        self.saver.protected.add(newest.entry.name)
        self.saver.pinned.update(found.in_memory)
        return newest

    def set_aside(self, taken: Snapshot) -> None:
        """``taken`` is none of the call that asked for it: it may be of a later one."""
        self.plan.newest = taken

    def trained(self, *, steps: int, samples: int = 0) -> None:
        """So many more are done, or passed over."""
        self.step += steps
        self.samples += samples
        if self.step >= self.attempt.planned_end.at_step:
            self.attempt.done(self.step)

    def followed(self, seconds: float) -> None:
        """It took so long to follow a step: part of what supervision may cost."""
        self._steps.followed(seconds)

    def next_fit(self) -> None:
        """A call is over: the next one has the next number.

        Nobody asks for its end any more, whose tensors are as large as its model.
        """
        self.plan.finished.pop(self.fit_number, None)
        self.fit_number += 1

    def fit_ended(self) -> None:
        """A call that trained here is over."""
        self.next_fit()
        self.tries = 0

    def fit_failed(self) -> None:
        """It raised: heard of only if the script catches that and tries again."""
        self.tries += 1

    def put_files_back(self, taken: Snapshot | None) -> None:
        """The script's files are as they were at ``taken``, where nothing later is given
        back after it."""
        later = any(fit > self.fit_number for fit in self.plan.finished)
        if taken is not None and self.plan.newest is None and not later:
            self.attempt.files.put_back(taken.manifest.state.get("files"))

    def entries(self) -> list[SnapshotEntry]:
        """The whole snapshots of both tiers by name; of the same that in memory first."""
        inside = [] if self.memory is None else self.memory.entries()
        return [*inside, *self.store.entries()]

    def keep_on_disk(self, taken: Snapshot) -> None:
        """Write ``taken``, which lies in memory, to disk too."""
        manifest, name = taken.manifest, taken.entry.name
        if any(entry.name == name for entry in self.store.entries()):
            return
        try:
            content = (taken.entry.path / TENSORS).read_bytes()
            self.store.commit(memoryview(content), manifest)
        except OSError as error:
            self.attempt.notice(f"{name} stays in memory alone: {error}")

    def restored(
        self, taken: Snapshot, *, seconds: float, proves: Snapshot | None = None
    ) -> None:
        """Go on counting from ``taken`` and say so.

        ``proves``: the newer snapshot that is met on the way. It is what the run goes on
        from: the steps before it are none that were lost.
        """
        self.saver.pinned.discard(taken.entry.name)
        self.step, self.samples = taken.manifest.step, taken.manifest.samples
        taken = proves or taken
        manifest = taken.manifest
        self.attempt.training.is_saved(step=manifest.step, snapshot=taken.entry.name)
        self.attempt.set(
            step=self.step,
            samples=self.samples,
            snapshot_step=manifest.step,
            snapshot_ns=time.monotonic_ns(),
        )
        self.attempt.say(
            RecordKind.RESTORED,
            snapshot=taken.entry.name,
            tier=taken.entry.tier,
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
        durable: bool,
        **position: Any,
    ) -> None:
        """Start saving; ``position``: the fields of the manifest that tell where.

        ``began``: when training stopped for it, by ``time.perf_counter``. ``durable``:
        on disk too, not in memory alone.
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
            state={
                **state,
                "script": script_hash(self.attempt),
                "tries": self.tries,
                resume_proof.COMPUTATION: resume_proof.computation_of(directive),
                resume_proof.COMPUTE: resume_proof.compute_of(directive),
                unrepeatable_draws.SEEDS_SET: unrepeatable_draws.seeds(),
                "files": self.attempt.files.ends(),
            },
            **position,
        )
        self.saver.save(tensors, manifest, began=began, durable=durable)
        if durable == (self.memory is None):
            self._steps.begins()

    def _saved(self, saved: Saved) -> None:
        """From the saving thread: publish what became of a snapshot in a tier."""
        manifest, error = saved.manifest, saved.error
        if saved.entry is None:
            number = None if error is None else error.errno
            self._tell_of_failure(saved.tier, manifest.step, error, number)
            return
        self._measure(saved)
        self._publish(manifest, saved.entry.name, saved.tier)
        self._news.taken(saved, now=time.monotonic())

    def _measure(self, saved: Saved) -> None:
        measured, held = self._measured, saved.held_seconds
        told = saved.tier == MEMORY or self.memory is None
        measured.saved(
            measured.memory if saved.tier == MEMORY else measured.durable,
            stall=held + saved.stall_seconds if told else held,
            busy=saved.busy_seconds,
            whole=saved.seconds,
        )
        self._plans_anew = True

    def _publish(self, manifest: Manifest, name: str, tier: str) -> None:
        """The newest snapshot, in any tier; on disk it may be one of long ago."""
        if tier == DURABLE:
            self.attempt.training.is_saved(step=manifest.step, snapshot=name)
        if manifest.serial <= self._published:
            return
        self._published = manifest.serial
        self._count += 1
        self.attempt.set(
            snapshot_step=manifest.step,
            snapshot_ns=time.monotonic_ns(),
            snapshots=self._count,
        )


def schedule_of(directive: Directive, *, memory: bool) -> SnapshotSchedule:
    """The rules that a directive asks for."""
    inside = Interval(
        seconds=directive.memory_every_seconds, steps=directive.memory_every_steps
    )
    return SnapshotSchedule(
        memory=inside if memory else None,
        durable=Interval(
            seconds=directive.snapshot_every_seconds,
            steps=directive.snapshot_every_steps,
        ),
        budget=directive.snapshot_budget,
        between_failures=directive.mean_seconds_between_failures,
    )


def _is_news(plan: IntervalPlan, told: IntervalPlan | None) -> bool:
    if told is None:
        return plan.memory_seconds != 0.0 and plan.durable_seconds != 0.0
    pairs = (
        (plan.memory_seconds, told.memory_seconds),
        (plan.durable_seconds, told.durable_seconds),
    )
    return any(
        (new is None) != (old is None)
        or (new is not None and old is not None and not old / NEWS <= new <= old * NEWS)
        for new, old in pairs
    )


def script_hash(attempt: Attempt) -> str | None:
    """The hash of the script that is run; None where there is none."""
    return None if attempt.script is None else hash_of(attempt.script)
