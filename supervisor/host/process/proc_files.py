"""Processes as ``/proc`` shows them (proc(5)). Whatever is gone is None, no error.

Not psutil: every look of every run asks this, and the same answer costs it 9 times as
much, a name 6 times (``make bench-processes``).
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from supervisor.core.liveness.hang_detection import Look
from supervisor.wire.page import PHASE_NAMES, Page

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
READ_BYTES = 65536


def read_kernel(path: str | Path) -> str:
    """What a small file in ``/proc`` or ``/sys`` says (65,536 bytes at most); empty where
    it is not there or not ours to read. What is no text, such as a name, is replaced.

    By system calls alone: a third of what ``Path.read_text`` costs.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, READ_BYTES).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """A few fields of ``/proc/PID/stat``."""

    state: str
    """``R``, ``S``, ``D`` (cannot be woken), ``T``, ``t`` (stopped), ``Z`` (zombie)."""
    parent: int
    cpu_seconds: float
    """Of all its threads."""
    ended_cpu_seconds: float
    """Of its children that ended and were waited for."""
    threads: int
    started_ticks: int
    """Since boot: with the pid, which process this is."""
    resident_bytes: int


def stat(pid: int) -> Stat | None:
    """What the kernel says of ``pid``."""
    return parse_stat(read_kernel(f"{PROC}/{pid}/stat"))


def parse_stat(text: str) -> Stat | None:
    """What stands in ``/proc/PID/stat``; None: nothing whole."""
    fields = text.rpartition(")")[2].split()  # from field 3 on: the name may be odd
    try:
        return Stat(
            state=fields[0],
            parent=int(fields[1]),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
            ended_cpu_seconds=(int(fields[13]) + int(fields[14])) / _TICKS,
            threads=int(fields[17]),
            started_ticks=int(fields[19]),
            resident_bytes=int(fields[21]) * PAGE_BYTES,
        )
    except (IndexError, ValueError):
        return None


def user_of(pid: int) -> int | None:
    """The user id as whom it acts. (Not the owner of its directory: that is root for who
    may not be looked into.)"""
    for line in read_kernel(f"{PROC}/{pid}/status").splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[2])
    return None


def name_of(pid: int) -> str:
    """Its command name; ``?`` where it may not be read."""
    return read_kernel(f"{PROC}/{pid}/comm").strip() or "?"


def doomed(pid: int) -> bool:
    """Whether it was killed and cannot die: in D state, with SIGKILL before it.

    It will never run a line of its program again.
    """
    known = stat(pid)
    if known is None or known.state != "D":
        return False
    pending = 0
    for line in read_kernel(f"{PROC}/{pid}/status").splitlines():
        key, _, value = line.partition(":")
        if key in {"SigPnd", "ShdPnd"}:
            pending |= int(value, 16)
    return bool(pending >> (signal.SIGKILL - 1) & 1)


def slept_seconds() -> float:
    """How long the machine has slept since it started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def look_at(
    pid: int | None,
    page: Page | None,
    *,
    work_seconds: float | None = None,
    output_bytes: int | None = None,
    refusals: int = 0,
) -> Look:
    """How training looks right now, by the kernel and by its own page.

    ``work_seconds``: processor time of all its processes; ``output_bytes``: its log's
    size; ``refusals``: allocations that failed.
    """
    known = None if pid is None else stat(pid)
    seen = page or Page()
    return Look(
        heartbeat_ns=seen.heartbeat_ns,
        phase=None if seen.phase is None else PHASE_NAMES.get(seen.phase),
        progress=(
            seen.phase,
            seen.phase_since_ns,
            seen.fit,
            seen.epoch,
            seen.step,
            seen.samples,
            seen.snapshots,
            seen.ticks,
        ),
        state=None if known is None else known.state,
        cpu_seconds=None if known is None else known.cpu_seconds,
        work_seconds=work_seconds,
        output_bytes=output_bytes,
        refusals=refusals,
        slept_seconds=slept_seconds(),
    )
