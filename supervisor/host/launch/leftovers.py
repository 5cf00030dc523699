"""Leftovers of dead attempts, and what else the next one has to wait for.

The shim ends what it can see. This is the second opinion, for what outlived the shim
itself: processes that carry the run's marker in their environment, and those that were
seen to come of an attempt while it lived, whatever they did to their environment, their
session or their parent. They are ended here; a zombie is no process any more, and one
that was killed but cannot die (D state) never runs again.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.core.gpu.assignment import holders, tenants
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.lifecycle.events import (
    GateClear,
    GateHeld,
    GateUnknown,
    Unkillable,
)
from supervisor.core.remediation.overrides import Awaited
from supervisor.core.text.units import format_size, sizes_apart
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.process.child_process import Process
from supervisor.host.process.marker_scan import marker_of
from supervisor.host.process.proc_files import doomed, name_of, stat, user_of
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.service import local_disks
from supervisor.wire.records.end_records import Shimmed

GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""
TREE_SECONDS = 5.0
"""How often the tree of an attempt is looked at while it lives."""
PRUNED = ("abandoned", "quarantine")
"""Directories beside the snapshots: kept for a look, and the first to go."""

GateState = GateClear | GateHeld | GateUnknown | Unkillable


@dataclass(kw_only=True)
class Leftovers:
    """The processes of one run."""

    run_id: str
    user_id: int | None = None
    """Whose processes they are; None: of whomever we may look into. A user may write what
    they like into a file, or into the environment of a process: others are not theirs."""
    population: ProcessTree = field(default_factory=ProcessTree)
    known: dict[int, int] = field(default_factory=dict[int, int])
    """The processes that were seen: {pid: start in clock ticks}. Those of this attempt
    that ended while it went on are forgotten: a loader may start thousands."""
    work_seconds: float = 0.0
    """Processor time of the attempt's living processes, as last looked at."""
    _asked: dict[int, float] = field(default_factory=dict[int, float])
    _told: frozenset[int] = frozenset()
    _looked_at: float | None = None

    @property
    def pids(self) -> frozenset[int]:
        """Whose GPU memory is ours."""
        return frozenset(self.known)

    def remember(self, shimmed: Shimmed | None) -> None:
        """Training that an earlier supervisor has seen start: it is known even where it
        does not let its environment be read."""
        if shimmed is not None and shimmed.boot_id == boot_id():
            self.known[shimmed.pid] = shimmed.started_ticks

    def follow(self, root: int | None, *, now: float) -> None:
        """Look at the tree below ``root``, now and then."""
        if root is None or not self._is_due(now):
            return
        self._looked_at = now
        tree = self.population.families({root: None}, now=now)
        others = [one for one in self.known.items() if one[0] not in tree]
        there = {pid: ticks for pid, ticks in others if _is(pid, ticks)}
        seen = {pid: one.started_ticks for pid, one in tree.items()}
        self.known = {**there, **seen}
        self.work_seconds = sum(one.cpu_seconds for one in tree.values())

    def _is_due(self, now: float) -> bool:
        """At the same times for all runs: they share the population."""
        last = self._looked_at
        return last is None or now // TREE_SECONDS > last // TREE_SECONDS

    def left(self) -> dict[int, str] | None:
        """Who still is there: {pid: command name}; None: not known yet, ask again.
        Raises OSError: it cannot be looked for."""
        marked = self.population.environments.carriers(marker_of(self.run_id))
        if marked is None:
            return None
        carriers = {pid: one.started_ticks for pid, one in marked.items()}
        found = {**self.known, **carriers}  # a pid that was known may have come back
        alive: dict[int, str] = {}
        for pid, ticks in found.items():
            seen = stat(pid)
            runs = seen is not None and seen.state not in "ZX" and _is(pid, ticks)
            if runs and self._is_of_the_run(pid):
                alive[pid] = name_of(pid)
        return alive

    def _is_of_the_run(self, pid: int) -> bool:
        """Whether it may be one of its processes at all: it is never ourselves."""
        whose = None if self.user_id is None else user_of(pid)
        return pid != os.getpid() and whose == self.user_id

    def end(self, left: dict[int, str], *, now: float) -> Unkillable | None:
        """SIGTERM, then SIGKILL; at the first that cannot die: who they are."""
        for pid in left:
            since = self._asked.setdefault(pid, now)
            if now == since:
                _send(pid, signal.SIGTERM)
            elif now - since >= GRACE_SECONDS:
                _send(pid, signal.SIGKILL)
        stuck = frozenset(
            pid for pid, since in self._asked.items()
            if now - since >= 2 * GRACE_SECONDS and pid in left and doomed(pid)
        )  # fmt: skip
        if stuck <= self._told:
            return None
        self._told |= stuck
        return Unkillable(tuple(sorted(stuck)))

    def gate(
        self,
        *,
        now: float,
        gpus: Sequence[Gpu],
        visible: Sequence[str],
        awaited: Awaited | None,
        disk: Path,
    ) -> GateState:
        """Whether the next attempt may start; if not, who or what holds it.

        Raises:
            OSError: that cannot be seen.
        """
        left = self.left()
        if left is None:
            return GateUnknown()
        stuck = self.end(left, now=now)
        if stuck is not None:
            return Unkillable(stuck.pids, gpus_of(stuck.pids, gpus))
        for pid, name in left.items():
            if not doomed(pid):
                return GateHeld(
                    f"process {pid} ({name}) of the attempt before is still there; "
                    "it is being ended"
                )
        for uuid, process in holders(gpus, ours=self.pids):
            if process.pid not in self._told:
                held = process.bytes
                much = "memory" if held is None else format_size(held)
                return GateHeld(
                    f"{much} of {uuid} still held by process {process.pid} "
                    f"({process.name}) of the attempt before"
                )
        return self._awaited(awaited, gpus=gpus, visible=visible, disk=disk)

    def _awaited(
        self,
        awaited: Awaited | None,
        *,
        gpus: Sequence[Gpu],
        visible: Sequence[str],
        disk: Path,
    ) -> GateState:
        if awaited is None:
            return GateClear()
        if awaited.tenants_gone:
            for one in tenants(gpus, gpus=visible, ours=self.pids):
                return GateHeld(
                    f"process {one.pid} ({one.name}) of somebody else holds memory on "
                    "the GPU"
                )
        if awaited.room_bytes is not None:
            free = room(disk, wanted=awaited.room_bytes)
            if free < awaited.room_bytes:
                free_text, needed = sizes_apart(free, awaited.room_bytes)
                return GateHeld(
                    f"{free_text} are free on the disk of {disk}, {needed} are needed"
                )
        if awaited.disk is not None:
            left = local_disks.free_bytes(awaited.disk)
            if left is not None and left < awaited.disk_bytes:
                free_text, needed = sizes_apart(left, awaited.disk_bytes)
                return GateHeld(
                    f"{free_text} are free on the disk mounted at {awaited.disk}, "
                    f"{needed} are needed"
                )
        return GateClear()


def gpus_of(pids: Sequence[int], gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The GPUs on which these processes hold memory."""
    held = holders(gpus, ours=frozenset(pids))
    return tuple(dict.fromkeys(uuid for uuid, _ in held))


def room(disk: Path, *, wanted: int) -> int:
    """Bytes free where ``disk`` is, after freeing what nobody needs if they are few."""
    free = _free(disk)
    if free < wanted:
        for name in PRUNED:
            shutil.rmtree(disk / name, ignore_errors=True)
        free = _free(disk)
    return free


def _free(disk: Path) -> int:
    try:
        return shutil.disk_usage(disk).free
    except OSError:
        return 0


def _is(pid: int, ticks: int) -> bool:
    """Whether ``pid`` still is the process that started then (0: whenever)."""
    seen = stat(pid)
    return seen is not None and ticks in {0, seen.started_ticks}


def _send(pid: int, number: signal.Signals) -> None:
    """Signal it, and wake it if it is stopped; the pid cannot become another's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        process = Process.of(pid)
        try:
            process.send(number)
            process.send(signal.SIGCONT)
        finally:
            process.close()
