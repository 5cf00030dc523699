"""Is this machine fit for training? Each finding with what to do about it.

Pure judgements beside the readings they are about; nothing here changes anything.
"""

import os
import re
import resource
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from supervisor.core.text.units import format_size
from supervisor.host.doctor import cuda_checks, logind_checks
from supervisor.host.doctor.finding import Finding, FindingLevel
from supervisor.host.launch import systemctl

SMALL_SHM = 1 << 30
LITTLE_DISK = 5 << 30
FEW_FILES = 4096


def driver(version: str | None, devices: Iterable[str]) -> list[Finding]:
    """``/proc/driver/nvidia/version``, and the names in ``/dev``."""
    if version is None:
        text = "no NVIDIA driver is loaded: training uses the CPU"
        return [Finding(level=FindingLevel.WARNING, about="driver", text=text)]
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", version)
    text = f"NVIDIA driver {found[1] if found else '(version not understood)'}"
    findings = [Finding(level=FindingLevel.OK, about="driver", text=text)]
    if "nvidia-uvm" not in set(devices):
        findings.append(
            Finding(
                level=FindingLevel.PROBLEM,
                about="nvidia-uvm",
                text="/dev/nvidia-uvm is missing: CUDA cannot start",
                fix="as root: nvidia-modprobe -u -c 0",
            )
        )
    return findings


def shared_memory(size: int | None, logind: Iterable[str]) -> list[Finding]:
    """The size of ``/dev/shm`` in bytes, and what logind's files say, in its order."""
    about = "/dev/shm"  # noqa: S108  # its name
    if size is None:
        text = "there is none: no snapshots in memory"
        fix = 'set snapshots.memory = "off", or mount a tmpfs there'
        return [Finding(level=FindingLevel.PROBLEM, about=about, text=text, fix=fix)]
    little = size < SMALL_SHM
    finding = Finding(
        level=FindingLevel.WARNING if little else FindingLevel.OK,
        about=about,
        text=f"{format_size(size)}",
        fix="two snapshots have to fit in: mount it larger" if little else "",
    )
    return [finding, *logind_checks.ipc(logind)]


def limits(files: int, memlock: int) -> list[Finding]:
    """Soft limits: open files, locked memory in bytes (-1: none)."""
    few = 0 <= files < FEW_FILES
    locked = 0 <= memlock < 1 << 30
    return [
        Finding(
            level=FindingLevel.WARNING if few else FindingLevel.OK,
            about="open files",
            text=str(files) if files >= 0 else "unlimited",
            fix="ulimit -n 65536, or LimitNOFILE= of the unit" if few else "",
        ),
        Finding(
            level=FindingLevel.WARNING if locked else FindingLevel.OK,
            about="locked memory",
            text=format_size(memlock) if memlock >= 0 else "unlimited",
            fix="LimitMEMLOCK=infinity, for pinned host memory" if locked else "",
        ),
    ]


def disk(path: Path, free: int | None) -> Finding:
    """Free bytes where the state is kept."""
    if free is None:
        return Finding(
            level=FindingLevel.PROBLEM,
            about="state directory",
            text=f"{path} cannot be written",
            fix="choose another with --state-dir, or mend its owner and mode",
        )
    little = free < LITTLE_DISK
    return Finding(
        level=FindingLevel.WARNING if little else FindingLevel.OK,
        about="state directory",
        text=f"{path}: {format_size(free)} free",
        fix="snapshots need room: see snapshots.quota and snapshots.keep"
        if little
        else "",
    )


def cgroups(controllers: str | None, *, version_1: bool) -> Finding:
    """``cgroup.controllers``; whether there is a memory cgroup of version 1."""
    if controllers is not None and "memory" in controllers.split():
        return Finding(
            level=FindingLevel.OK, about="cgroups", text="version 2, with memory"
        )
    if version_1:
        return Finding(
            level=FindingLevel.OK, about="cgroups", text="version 1, with memory"
        )
    text = "no memory cgroup: kernel OOM kills are told by SIGKILL alone"
    return Finding(level=FindingLevel.WARNING, about="cgroups", text=text)


def compiler(path: str | None) -> Finding:
    """Where ``g++`` is."""
    if path is None:
        text = "no g++: memory is shown by estimate instead of block by block"
        fix = "install it (Debian: apt install g++)"
        return Finding(level=FindingLevel.WARNING, about="compiler", text=text, fix=fix)
    return Finding(level=FindingLevel.OK, about="compiler", text=path)


def clock(*, synchronised: bool | None) -> Finding:
    """Whether the kernel's clock is kept right."""
    if synchronised is None or synchronised:
        text = (
            "kept by a time service"
            if synchronised
            else "whether a time service keeps it cannot be told here"
        )
        return Finding(level=FindingLevel.OK, about="clock", text=text)
    text = "no time service keeps it: times of incidents may be wrong"
    fix = "systemctl enable --now systemd-timesyncd (or chrony)"
    return Finding(level=FindingLevel.WARNING, about="clock", text=text, fix=fix)


def service(*, booted: bool) -> Finding:
    """Whether systemd runs this machine."""
    text = (
        "systemd: attempts can be units of their own"
        if booted
        else "no systemd: attempts are children of the daemon, as its user"
    )
    return Finding(level=FindingLevel.OK, about="service", text=text)


def examine(state: Path, *, python: str) -> list[Finding]:
    """All findings about this machine; ``python``: the interpreter of jobs."""
    root = Path("/sys/fs/cgroup")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return [
        *driver(_text(Path("/proc/driver/nvidia/version")), _names(Path("/dev"))),
        *cuda_checks.examine(python),
        compiler(shutil.which("g++")),
        *shared_memory(_size(Path("/dev/shm")), logind_checks.texts()),  # noqa: S108  # only its size
        disk(state, _writable_bytes(state)),
        cgroups(
            _text(root / "cgroup.controllers"), version_1=(root / "memory").is_dir()
        ),
        clock(synchronised=_synchronised()),
        *limits(files, locked),
        service(booted=systemctl.booted()),
    ]


def _text(path: Path) -> str | None:
    return _tried(path.read_text)


def _names(path: Path) -> list[str]:
    return _tried(lambda: os.listdir(path)) or []  # noqa: PTH208  # names are enough


def _size(path: Path) -> int | None:
    return _tried(lambda: shutil.disk_usage(path).total)


def _writable_bytes(path: Path) -> int | None:
    """Free bytes of the nearest directory that is there, if we may write to it."""
    there = next((one for one in (path, *path.parents) if one.is_dir()), path)
    if not os.access(there, os.W_OK):
        return None
    return _tried(lambda: shutil.disk_usage(there).free)


def _synchronised() -> bool | None:
    """systemd-timesyncd's mark, or chrony's; None where neither would be."""
    marks = (Path("/run/systemd/timesync/synchronized"), Path("/run/chrony"))
    if any(mark.exists() for mark in marks):
        return True
    return False if systemctl.booted() else None


T = TypeVar("T")


def _tried(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except OSError:
        return None
