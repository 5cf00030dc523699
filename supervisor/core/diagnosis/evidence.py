"""Evidence about the end of an attempt: values only, gathered by the host."""

from dataclasses import dataclass

from supervisor.core.diagnosis.log_scanner import NO_FINDINGS, LogFindings
from supervisor.core.diagnosis.systemd_result import UnitEnd
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.fit_memory import FitMemory
from supervisor.core.memory.oom_analysis import NOTHING_FOUND, OomFindings
from supervisor.wire.reasons import KillReason, RefusalReason
from supervisor.wire.records.end_records import CrashReport, ExitRecord
from supervisor.wire.records.oom_subject import OomSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """The loss became no number: between these two steps."""

    last_finite_step: int | None
    """The newest step whose loss was seen to be finite; None: no such was seen."""
    step: int
    """The step at which it was seen not to be."""
    because: str
    """A sentence with the loss, the steps, and what the weights say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The training side ended before training, and said why."""

    reason: RefusalReason
    sentence: str
    """For people: nothing is decided by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """We killed it, by our own judgement."""

    reason: KillReason
    sentence: str
    """For people: nothing is decided by it."""
    pids: tuple[int, ...] = ()
    """The processes that hang in the kernel, where that is the reason."""
    idle_since: float | None = None
    """Monotonic seconds of its last progress, where it was killed for having made none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything a diagnosis may look at. None: not known, which is not zero."""

    exit: ExitRecord | None
    """None: no exit record was found (the shim died too)."""
    unit: UnitEnd | None = None
    """How the shim ended, where there is no exit record and somebody knows."""
    crash: CrashReport | None = None
    log: LogFindings = NO_FINDINGS
    fault: LogFindings = NO_FINDINGS
    """What faulthandler wrote on a fatal signal."""
    kernel: LogFindings = NO_FINDINGS
    """Lines of the kernel log from the time of this attempt: Xids, OOM kills."""
    memory: OomFindings = NOTHING_FOUND
    """What is known of who held what, and of how memory had grown."""
    dump: MemoryFigures | None = None
    """Figures of the first allocator dump (``TF_BFC_MEMORY_DUMP``), if any."""
    limited: bool = False
    """Whether the supervisor put the CPU allocator under a limit: running out of it
    is then what running out of device memory is on a GPU."""
    no_room: bool = False
    """Whether it found no room for its own files: the script did not begin."""
    refused: Refusal | None = None
    """None: the training side did not refuse to start."""
    finished: bool = False
    """Whether the script came to its end (the event file says so)."""
    script_exit_code: int | None = None
    """What the script itself passed to ``sys.exit``; None: it did not get that far."""
    script_exit_message: str = ""
    """... where that was no number: Python prints it, and ends with 1."""
    drained: bool = False
    """Whether the attempt saved its state on request and ended."""
    steps_done: int | None = None
    """Steps completed in this attempt."""
    cgroup_oom_kills: int | None = None
    """How many OOM kills the attempt's cgroup counted; None: it could not be read."""
    oom_kills_before_kill: int | None = None
    """How many of them had been counted when the supervisor sent SIGKILL: those are of
    other processes of the attempt, such as workers. None: it sent none, or not known."""
    stop_requested: bool = False
    """Whether the supervisor itself asked for the end."""
    killed: Killed | None = None
    """Why the supervisor killed it, if it did (a stall, say)."""
    grace_seconds: float | None = None
    """How long it was given to save its state and end, before the supervisor killed it
    for not having done so; None: it did not."""
    non_finite: NonFinite | None = None
    """What the watch over the loss saw when it ended the attempt."""
    stacks: str = ""
    """The stacks of all threads, taken before it was killed for a stall, or written by
    Python as native code crashed."""
    gpus: tuple[Gpu, ...] = ()
    """The GPUs of the box after the end; empty: not known."""
    faulty_gpus: tuple[str, ...] = ()
    """UUIDs of those that the driver reported errors of (Xid) while it ran."""
    uses_gpu: bool = True
    """False: the driver lists who is on its GPUs, and no process of it was ever there,
    nor was it given one."""
    own_pids: frozenset[int] = frozenset()
    """Every process of the attempt that was ever seen."""
    subject: OomSubject | None = None
    """What memory was asked for at the end, if it was memory; None: not known."""
    sliceable: bool | None = None
    """Whether its backend of Keras can work through a batch in slices; None: not known."""
    validated: bool = False
    """Whether a validation came to its end in this attempt."""
    fits: tuple[FitMemory, ...] = ()
    """What the calls of ``fit`` of the run showed about memory; the newest is last."""
    snapshot_bytes: int | None = None
    """Size of the newest snapshot on disk."""
    log_only: bool = False
    """Whether a log, and perhaps an exit status, is all there is: somebody asks about
    a file, and no end of an attempt has been observed."""
