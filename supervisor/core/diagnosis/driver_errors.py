"""Errors of the driver and the kernel that may explain the end of an attempt.

Xids of the GPUs that the attempt used, or that name one of its processes; GPUs of it
that are lost; and OOM kills that name one of its processes. What befell others is left
out: their crash is not ours.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from supervisor.core.diagnosis.log_scanner import NO_FINDINGS, LogFindings, scan
from supervisor.core.diagnosis.signatures.cuda_rows import HARDWARE_XIDS
from supervisor.core.gpu.gpu_readings import Gpu, Xid
from supervisor.core.gpu.xids import as_kernel_line

_PID = re.compile(r"\bpid=(?P<pid>\d+)|Killed process (?P<killed>\d+)")
_HARDWARE = re.compile(HARDWARE_XIDS)


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
) -> DriverErrors:
    """Of all that was heard since the attempt began, what concerns it.

    ``lines`` of the kernel log, without Xids; ``used``: the UUIDs of its GPUs; ``pids``:
    its processes.
    """
    ours = [xid for xid in xids if xid.gpu in used or _names(xid.text, pids)]
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


def is_hardware(xid: Xid) -> bool:
    """Whether its number is one that no program causes."""
    return _HARDWARE.fullmatch(str(xid.code)) is not None


def _names(text: str, pids: Collection[int]) -> bool:
    found = _PID.search(text)
    return found is not None and int(found["pid"] or found["killed"]) in pids
