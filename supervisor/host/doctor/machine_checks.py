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
from supervisor.host.doctor import (
    cuda_checks,
    logind_checks,
    slurm_checks,
    version_checks,
)
from supervisor.host.doctor.finding import Finding, fine, problem, unchecked, warning
from supervisor.host.launch import systemctl
from supervisor.host.service.network_file_systems import ledger_sentence

SMALL_SHM = 1 << 30
LITTLE_DISK = 5 << 30
FEW_FILES = 4096
PCI = Path("/sys/bus/pci/devices")
NVIDIA, DISPLAY = "0x10de", "0x03"
"""Vendor and base class in the files of a device there (pci.ids; PCI Code and ID
Assignment: display controllers)."""


def driver(
    version: str | None, devices: Iterable[str], *, hardware: bool
) -> list[Finding]:
    """``/proc/driver/nvidia/version``, and the names in ``/dev``; ``hardware``: whether
    the machine has a GPU of NVIDIA's."""
    if version is None and not hardware:
        return [fine("driver", "no GPU of NVIDIA's here: training uses the CPU")]
    if version is None:
        return [warning("driver", "no NVIDIA driver is loaded: training uses the CPU")]
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", version)
    number = found[1] if found else "(version not understood)"
    findings = [fine("driver", f"NVIDIA driver {number}")]
    if "nvidia-uvm" not in set(devices):
        text = "/dev/nvidia-uvm is missing: CUDA cannot start"
        fix = "as root: nvidia-modprobe -u -c 0"
        findings.append(problem("nvidia-uvm", text, fix))
    return findings


def shared_memory(size: int | None, logind: Iterable[str] | None) -> list[Finding]:
    """The size of ``/dev/shm`` in bytes, and what logind's files say, in its order; None:
    no logind runs here."""
    about = "/dev/shm"  # noqa: S108  # its name
    if size is None:
        text = "there is none: no snapshots in memory"
        fix = 'set snapshots.memory = "off", or mount a tmpfs there'
        return [problem(about, text, fix)]
    fix = "two snapshots have to fit in: mount it larger"
    finding = _enough(about, format_size(size), enough=size >= SMALL_SHM, fix=fix)
    return [finding, *([] if logind is None else logind_checks.ipc(logind))]


def limits(files: int, memlock: int, *, gpu: bool) -> list[Finding]:
    """Soft limits: open files, locked memory in bytes (-1: none), which counts for what is
    copied to a ``gpu``."""
    return [
        _enough(
            "open files",
            str(files) if files >= 0 else "unlimited",
            enough=not 0 <= files < FEW_FILES,
            fix="ulimit -n 65536, or LimitNOFILE= of the unit",
        ),
        _locked_memory(memlock)
        if gpu
        else unchecked("locked memory", "it counts for GPUs alone, and none is here"),
    ]


def _locked_memory(limit: int) -> Finding:
    return _enough(
        "locked memory",
        format_size(limit) if limit >= 0 else "unlimited",
        enough=not 0 <= limit < 1 << 30,
        fix="LimitMEMLOCK=infinity, for pinned host memory",
    )


def _enough(about: str, text: str, *, enough: bool, fix: str) -> Finding:
    return fine(about, text) if enough else warning(about, text, fix)


def disk(path: Path, free: int | None) -> Finding:
    """Free bytes where the state is kept."""
    about = "state directory"
    if free is None:
        fix = "choose another with --state-dir, or mend its owner and mode"
        return problem(about, f"{path} cannot be written", fix)
    fix = "snapshots need room: see snapshots.quota and snapshots.keep"
    text = f"{path}: {format_size(free)} free"
    return _enough(about, text, enough=free >= LITTLE_DISK, fix=fix)


def ledger_place(sentence: str | None) -> list[Finding]:
    """``ledger_sentence`` of the state directory."""
    if sentence is None:
        return []
    fix = "a directory for each job (--state-dir), or one on a local disk"
    return [warning("ledger", sentence, fix)]


def cgroups(controllers: str | None, *, version_1: bool) -> Finding:
    """``cgroup.controllers``; whether there is a memory cgroup of version 1."""
    if controllers is not None and "memory" in controllers.split():
        return fine("cgroups", "version 2, with memory")
    if version_1:
        return fine("cgroups", "version 1, with memory")
    text = "no memory cgroup: kernel OOM kills are told by SIGKILL alone"
    return warning("cgroups", text)


def compiler(path: str | None) -> Finding:
    """Where ``g++`` is."""
    if path is None:
        text = "no g++: memory is shown by estimate instead of block by block"
        return warning("compiler", text, "install it (Debian: apt install g++)")
    return fine("compiler", path)


def clock(*, synchronised: bool | None) -> Finding:
    """Whether the kernel's clock is kept right."""
    if synchronised is None:
        why = "no systemd runs here, and neither timesyncd nor chrony left a mark"
        return unchecked("clock", f"{why}: who keeps it cannot be told")
    if synchronised:
        return fine("clock", "kept by a time service")
    text = "no time service keeps it: times of incidents may be wrong"
    fix = "systemctl enable --now systemd-timesyncd (or chrony)"
    return warning("clock", text, fix)


def service(*, booted: bool) -> Finding:
    """Whether systemd runs this machine."""
    text = (
        "systemd: attempts can be units of their own"
        if booted
        else "no systemd: attempts are children of the daemon, as its user"
    )
    return fine("service", text)


def examine(state: Path, *, python: str, grace: float) -> list[Finding]:
    """All findings about this machine; ``python``: the interpreter of jobs, ``grace``:
    their ``drain.grace`` in seconds."""
    root = Path("/sys/fs/cgroup")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    booted = systemctl.booted()
    logind = logind_checks.texts() if logind_checks.runs(booted=booted) else None
    version = _text(Path("/proc/driver/nvidia/version"))
    gpu = version is not None
    return [
        *driver(version, _names(Path("/dev")), hardware=has_gpu(PCI)),
        *cuda_checks.examine(python, gpu=gpu),
        *version_checks.examine(python),
        compiler(shutil.which("g++")),
        *shared_memory(_size(Path("/dev/shm")), logind),  # noqa: S108  # only its size
        disk(state, _writable_bytes(state)),
        *ledger_place(ledger_sentence(state)),
        cgroups(
            _text(root / "cgroup.controllers"), version_1=(root / "memory").is_dir()
        ),
        clock(synchronised=_synchronised()),
        *limits(files, locked, gpu=gpu),
        service(booted=booted),
        *slurm_checks.examine(grace=grace),
    ]


def _text(path: Path) -> str | None:
    return _tried(path.read_text)


def has_gpu(devices: Path) -> bool:
    """Whether one of the devices on the PCI bus is a GPU of NVIDIA's, whatever drives it."""
    return any(
        (_text(one / "vendor") or "").strip() == NVIDIA
        and (_text(one / "class") or "").startswith(DISPLAY)
        for one in (devices / name for name in _names(devices))
    )


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
