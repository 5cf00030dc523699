"""The wait for the GPU driver at the end of an attempt: whether, and how long.

A GPU that falls off the bus ends a program a moment before anybody else hears of it:
what the driver said before the end is not all that it has to say about it. So where a
GPU could be the reason, the next reading is awaited, which carries the Xids up to
then. The rules:

1. Only for an attempt that has used a GPU, and only if somebody asks the driver at all.
2. Only for an end that a GPU can explain: not for a clean one, nor for a mistake in the
   script, a full disk or a hand from outside.
3. Until a reading that was begun after the end. A driver that answered shortly before is
   waited for as long as a busy machine may take (``BUSY_SECONDS``); one that did not may
   hang, and is waited for no longer than ``WORD_SECONDS``.
"""

from dataclasses import dataclass

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence

WORD_SECONDS = 3.0
"""One period of the probe (1 s), the driver's answer on a box with eight GPUs (some
tenths), and as much again."""
BUSY_SECONDS = 10.0
"""For a machine with many more processes at work than cores. It costs nothing where the
next reading comes in time, and where it does not, an Xid would be missed."""

BY_A_GPU = frozenset(
    {
        Cause.DEVICE_OOM,
        Cause.DEVICE_OOM_FRAGMENTATION,
        Cause.CUDNN_ALLOC,
        Cause.CUDNN_INIT,
        Cause.CUDNN_EXEC,
        Cause.CUBLAS,
        Cause.CUDA_FAULT,
        Cause.GPU_HARDWARE,
        Cause.NCCL,
        Cause.NATIVE_CRASH,
        Cause.UNKNOWN,
    }
)
"""What the driver may know more of: a device that failed, or who else has its memory."""

OF_A_DEVICE = frozenset(
    {
        "AbortedError",
        "AcceleratorError",
        "InternalError",
        "JaxRuntimeError",
        "RuntimeError",
        "UnavailableError",
        "UnknownError",
        "XlaRuntimeError",
    }
)
"""Exceptions as which frameworks pass on what a device reports (TensorFlow:
python/framework/errors_impl.py; jaxlib: XlaRuntimeError; PyTorch: c10/util/Exception.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverWait:
    """What is to be expected of the driver about an attempt."""

    used: bool = False
    """A process of the attempt was seen on a GPU, or it was given one."""
    answers: bool = False
    """Somebody asks the driver, and it is not beyond help."""
    begun: float | None = None
    """When the newest reading was begun, in monotonic seconds; None: there is none."""


NO_WORD = DriverWait()


def awaited(evidence: Evidence, word: DriverWait, *, ended: float, now: float) -> bool:
    """Whether the end at ``ended`` is decided only later (monotonic seconds)."""
    if not (word.used and word.answers):
        return False
    if word.begun is not None and word.begun >= ended:
        return False
    return now - ended < patience(word, ended=ended) and explainable(evidence)


def patience(word: DriverWait, *, ended: float) -> float:
    """How long the reading after an end at ``ended`` is awaited, in seconds."""
    answered = word.begun is not None and ended - word.begun < BUSY_SECONDS
    return BUSY_SECONDS if answered else WORD_SECONDS


def explainable(evidence: Evidence) -> bool:
    """Whether a GPU can be the reason of such an end."""
    if diagnose(evidence).cause in BY_A_GPU:
        return True
    crash = evidence.crash
    return crash is not None and crash.exception.rpartition(".")[2] in OF_A_DEVICE
