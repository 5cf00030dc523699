"""The records of the end of an attempt: the crash report and the exit record."""

from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashReport(JsonRecord):
    """An uncaught Python exception, written by the training process itself.

    It outranks what follows: TensorFlow may still abort while the interpreter ends.
    """

    exception: str
    """Qualified name, such as ``tensorflow...errors_impl.ResourceExhaustedError``."""
    message: str
    traceback: str
    """As Python prints it, our own frames left out."""
    steps_done: int | None
    """Steps of this attempt that were completed before; None: not known."""
    in_fit: bool
    """Whether a supervised ``fit`` was running."""
    memory: str | None = None
    """What memory was asked for when it ran out (``wire.records.oom_subject``); None: it did not, or
    nobody can tell."""
    allocation: str | None = None
    """The allocation that failed before, where this exception is only what came of it:
    Keras goes on after some failures, with a model of which a part was not made."""
    full_disk: str | None = None
    """Where the disk is mounted that was full; None: none was, or nobody can tell."""
    full_disk_free_bytes: int = 0
    """Free there as the script ended."""
    full_disk_bytes: int = 0
    """Its size; 0: not known."""
    full_disk_named: bool = False
    """Whether the error named a file there; False: that disk was full, and near."""
    unprompted: bool = False
    """A KeyboardInterrupt that no signal made: the script raised it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord(JsonRecord):
    """How the training process ended, written by the shim after all others are gone."""

    pid: int
    exit_code: int | None
    """What it passed to ``exit``; None if a signal ended it."""
    signal: int | None
    core_dumped: bool
    max_rss_bytes: int
    user_seconds: float
    system_seconds: float
    started_ns: int
    ended_ns: int
    """Monotonic nanoseconds."""
    asked_to_stop: bool
    """Whether the shim passed on a SIGTERM before."""
    swept: int
    """Processes of this attempt that outlived training and were ended."""
    unkillable: tuple[int, ...]
    """Those that did not react to SIGKILL (D state)."""
    oom_kills: int | None = None
    """OOM kills in the memory cgroup while it ran; None: they could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shimmed(JsonRecord):
    """Who the shim is and whom it watches, written before training starts."""

    shim_pid: int
    shim_started_ticks: int
    pid: int
    boot_id: str
    started_ticks: int
    """Start time of ``pid`` in clock ticks since boot: field 22 of /proc/PID/stat."""
