"""Errors of the driver and the kernel that may explain the end of an attempt.

Xids that name one of its processes, or that are of a GPU that it used; GPUs of it that
are lost; and OOM kills that name one of its processes. What befell others is left out:
their crash is not ours. So is an Xid of a shared GPU that names a process which is known
to be somebody else's, unless its number is one that befalls the GPU itself, and with it
everybody on it. A process that nobody knows may have been a child of ours, which lived and
died between two looks; and the server of MPS is named for any of its clients.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from supervisor.core.diagnosis.log_scanner import NO_FINDINGS, LogFindings, scan
from supervisor.core.diagnosis.signatures.cuda_rows import HARDWARE_XIDS
from supervisor.core.gpu.gpu_readings import Gpu, Xid
from supervisor.core.gpu.xids import as_kernel_line

_PID = re.compile(r"\bpid=(?P<pid>\d+)|Killed process (?P<killed>\d+)")
_HARDWARE = re.compile(HARDWARE_XIDS)
MPS = "nvidia-cuda-mps"
"""How the programs of CUDA's Multi-Process Service are called. A fault of one of its
clients may end all of them."""
_OF_MPS = re.compile(rf"\bname='?{MPS}")
SAME_FAULT_SECONDS = 10.0
"""What the driver says within this time is about one fault, and begins with its root."""


@dataclass(frozen=True, slots=True)
class DriverErrors:
    """``kernel``: as the kernel log would say it. ``gpus``: UUIDs of faulty devices."""

    kernel: LogFindings = NO_FINDINGS
    gpus: tuple[str, ...] = ()


def faults_of(
    xids: Iterable[Xid],
    *,
    lines: Iterable[str],
    gpus: Iterable[Gpu],
    used: Collection[str],
    pids: Collection[int],
    others: Mapping[str, Collection[int]],
) -> DriverErrors:
    """Of all that was heard since the attempt began, what concerns it.

    ``lines`` of the kernel log, without Xids; ``used``: the UUIDs of its GPUs; ``pids``:
    its processes; ``others``: those that are known to be somebody else's, by GPU. In a
    container, whose pids are not those that the kernel log and the driver mean, there are
    none of both: the counter of its cgroup tells of its OOM kills.
    """
    found = [
        xid
        for xid in xids
        if _names(xid.text, pids)
        or (xid.gpu in used and not _of_others(xid, others.get(xid.gpu or "", ())))
    ]
    ours = _ordered(found, pids=pids)
    lost = [gpu for gpu in gpus if gpu.lost and gpu.uuid in used]
    told = [as_kernel_line(xid) for xid in ours]
    told += [f"NVRM: GPU at PCI:{gpu.bus}: GPU is lost" for gpu in lost]
    told += [line for line in lines if "Killed process" in line and _names(line, pids)]
    if not told:
        return DriverErrors()
    broken = [xid.gpu for xid in ours if xid.gpu and is_hardware(xid)]
    named = dict.fromkeys([*broken, *(gpu.uuid for gpu in lost)])
    text = "".join(f"{line}\n" for line in told)
    return DriverErrors(scan(text.encode(errors="replace")), tuple(named))


def _of_others(xid: Xid, others: Collection[int]) -> bool:
    """Whether it is the doing of one of ``others`` alone."""
    alone = _OF_MPS.search(xid.text) is None and not is_hardware(xid)
    return alone and _names(xid.text, others)


def _ordered(xids: Sequence[Xid], *, pids: Collection[int]) -> list[Xid]:
    """As they are to be quoted: those that name one of ``pids`` first, and what belongs
    to the newest fault, in its order, before what is older."""
    newest = max((xid.at for xid in xids), default=0.0)

    def place(xid: Xid) -> tuple[bool, bool, float]:
        older = newest - xid.at > SAME_FAULT_SECONDS
        return not _names(xid.text, pids), older, xid.at

    return sorted(xids, key=place)


def is_hardware(xid: Xid) -> bool:
    """Whether its number is one that no program causes."""
    return _HARDWARE.fullmatch(str(xid.code)) is not None


def _names(text: str, pids: Collection[int]) -> bool:
    found = _PID.search(text)
    return found is not None and int(found["pid"] or found["killed"]) in pids
