"""What an attempt may leave behind, made by hand, and the cause seen in it."""

import functools
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence, Refusal
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.diagnosis.log_scanner import LogFindings, scan
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.end_records import CrashReport, ExitRecord

OOM = "Allocator (GPU_0_bfc) ran out of memory trying to allocate 64B (rounded to 256)"
HOLES = (
    f"{OOM}\nTotal bytes in pool: 4000 memory_limit_: 4000 available bytes: 0 x\n"
    "Limit: 4000\nInUse:  3000\nMaxInUse:  3000\nMaxAllocSize:  3000\n"
)
MKL = "Allocator (mklcpu) ran out of memory trying to allocate 64B (rounded to 256)\n"
FAULT = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
STEPS = "Epoch 1/3\n5/9 - 1s - loss: 0.4\n9/9 - 1s - loss: 0.3\nEpoch 2/3\n"


def ours(code: int | None = None, signal: int | None = None) -> ExitRecord:
    """The exit record of a process that we watched."""
    return replace(record_of(code, signal), pid=77)


def crash(exception: str, message: str = "x", traceback: str = "") -> CrashReport:
    """What the child left behind."""
    return CrashReport(
        exception=exception,
        message=message,
        traceback=traceback,
        steps_done=3,
        in_fit=True,
    )


def refusal(
    sentence: str, reason: RefusalReason = RefusalReason.MODULE_CHANGED
) -> Refusal:
    """What the training side said when it would not train."""
    return Refusal(reason=reason, sentence=sentence)


@functools.cache
def seen(text: str) -> LogFindings:
    """The findings of a log."""
    return scan(text.encode())


def cause(evidence: Evidence) -> Cause:
    """The cause alone."""
    return diagnose(evidence).cause
