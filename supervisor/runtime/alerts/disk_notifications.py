"""Notifications of disks that cannot be written: one alarm a disk, whoever meets it."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from supervisor.core.jobs.notification import NotificationKind
from supervisor.core.lifecycle.disk_alarm import (
    AlarmNews,
    AlarmPhase,
    DiskAlarm,
    DiskTrouble,
    disk_failing,
    disk_well,
    next_alarm,
)
from supervisor.core.text.log_level import Notifier
from supervisor.core.text.units import format_size
from supervisor.host.service.clock import Clock
from supervisor.runtime.alerts.run_notifications import NotificationSenders

LOOK_SECONDS = 1.0
ROOM_BYTES = 64 << 20
"""The trouble of a run that has ended is over once so much is free."""
TroubleAt = tuple[Path, DiskTrouble]
"""What could not be written below which directory."""


@dataclass(slots=True)
class _Disk:
    """One that is or was in trouble."""

    place: Path
    alarm: DiskAlarm = field(default_factory=DiskAlarm)
    told_of: Sequence[DiskTrouble] = ()


@dataclass(kw_only=True)
class DiskNotifications:
    """Those of one process: of its run, or of all runs of a daemon."""

    senders: NotificationSenders
    clock: Clock
    say: Notifier
    _seen: dict[str, tuple[TroubleAt, ...]] = field(
        default_factory=dict[str, tuple[TroubleAt, ...]]
    )
    """By job: what it meets now."""
    _left: list[TroubleAt] = field(default_factory=list[TroubleAt])
    """What runs met that have ended."""
    _disks: dict[int, _Disk] = field(default_factory=dict[int, _Disk])
    """By device."""
    _due: float = 0.0

    def see(self, job: str, troubles: Sequence[TroubleAt]) -> None:
        """What ``job`` meets now: all of it."""
        if troubles:
            self._seen[job] = tuple(troubles)
        else:
            self._seen.pop(job, None)

    def ended(self, job: str) -> None:
        """The run of ``job`` has ended, and says no more."""
        for place, trouble in self._seen.pop(job, ()):
            self._left.append((place, replace(trouble, needs_bytes=ROOM_BYTES)))

    def look(self, *, at_once: bool = False) -> None:
        """Tell what is due; never waits. ``at_once``: nobody looks later."""
        now = self.clock.now()
        if not (self._seen or self._left or self._disks):
            return
        if now < self._due and not at_once:
            return
        self._due = now + LOOK_SECONDS
        self._left = [one for one in self._left if _lasts(*one)]
        met: dict[int, list[DiskTrouble]] = {}
        for place, trouble in self._troubles():
            device = _device(place)
            self._disks.setdefault(device, _Disk(place))
            met.setdefault(device, []).append(trouble)
        for device, disk in list(self._disks.items()):
            self._move(disk, met.get(device, []), now=now, at_once=at_once)
            if disk.alarm.phase is AlarmPhase.QUIET:
                del self._disks[device]

    def _troubles(self) -> Iterator[TroubleAt]:
        for troubles in [*self._seen.values(), tuple(self._left)]:
            yield from (one for one in troubles if _lasts(*one))

    def _move(
        self, disk: _Disk, met: Sequence[DiskTrouble], *, now: float, at_once: bool
    ) -> None:
        disk.alarm, news = next_alarm(
            disk.alarm, troubled=bool(met), now=now, at_once=at_once
        )
        if news is None or not self._wanted:
            return
        place, room = str(disk.place), _room(disk.place)
        if news is AlarmNews.FAILING:
            disk.told_of = met
            told = disk_failing(place, met, room=room)
        else:
            told = disk_well(place, disk.told_of, room=room)
        self.senders.send(told, self.say)

    @property
    def _wanted(self) -> bool:
        spec = self.senders.spec
        return spec.wanted and NotificationKind.DISK in spec.on


def _lasts(place: Path, trouble: DiskTrouble) -> bool:
    """Whether ``trouble`` is there still."""
    free = _free(place)
    return trouble.needs_bytes is None or free is None or free < trouble.needs_bytes


def _existing(place: Path) -> Path:
    return next((one for one in [place, *place.parents] if one.exists()), place)


def _device(place: Path) -> int:
    try:
        return _existing(place).stat().st_dev
    except OSError:
        return -1


def _free(place: Path) -> int | None:
    try:
        return shutil.disk_usage(_existing(place)).free
    except OSError:
        return None


def _room(place: Path) -> str:
    try:
        usage = shutil.disk_usage(_existing(place))
    except OSError as error:
        return f"how much is free there is not known: {error.strerror}"
    return f"{format_size(usage.free)} of {format_size(usage.total)} are free there"
