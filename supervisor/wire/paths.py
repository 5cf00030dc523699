"""The paths of a run: ``STATE/jobs/NAME/run-N/attempts/0001/…``."""

from dataclasses import dataclass
from pathlib import Path

MEMORY_PREFIX = "trainwarden-"
"""How the directories of memory tiers begin; the run's id follows."""

STORE_LOCK = ".lock"
"""In the durable tier: training holds a record lock (``fcntl``) on it."""

OWNER = "owner.json"
"""In each: ``snapshots``, the durable tier of the same run. Where that is gone, the
memory is nobody's any more."""

CUT = "cut-attempt-"
"""What a restart took from a file of the script lies beside it: ``FILE.cut-attempt-N``."""


class _Named:
    """A path of this name below the root of what has it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(
        self, paths: "AttemptPaths | RunPaths | StatePaths", _owner: type
    ) -> Path:
        return paths.root / self._name


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """The files of one attempt (one training process)."""

    root: Path

    directive = _Named("directive.json")
    """What the supervisor asks of this attempt (``directive.Directive``)."""
    page = _Named("page")
    """The telemetry page, mapped by both sides."""
    events = _Named("events.jsonl")
    """The append-only event file: a JSON object a line."""
    output = _Named("output.log")
    """Standard output and standard error of training, as they came."""
    crash = _Named("crash.json")
    """The crash report of an uncaught Python exception."""
    failure = _Named("failure.json")
    """The crash report of a step that failed, where training asks whether to go on."""
    recovery = _Named("recovery.json")
    """The supervisor's answer to that (``recovery_answer.RecoveryAnswer``)."""
    fault = _Named("fault.log")
    """The stacks that faulthandler writes on a fatal signal, or when asked."""
    exit = _Named("exit.json")
    """The exit record, written by the shim after the last process is gone."""
    dumps = _Named("dumps")
    """Allocator dumps (``MemoryDump`` protobufs) that TensorFlow writes on OOM."""
    imports = _Named("imports.json")
    """How the script imported its framework (``standby_messages.ImportRecord``)."""
    memory_request = _Named("memory-request")
    """Somebody asks for the allocator's map: training removes it and answers."""
    memory_map = _Named("memory.map")
    """The answer's map: a ``MemoryDump``; written before ``memory_answer``."""
    memory_answer = _Named("memory.json")
    """The answer: who holds what (``memory_answer.MemoryAnswer``)."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run of a job: all its attempts share the snapshots."""

    root: Path

    snapshots = _Named("snapshots")
    """The durable tier: one directory a snapshot."""
    remote_claim = _Named("remote-claim.json")
    """Which claim of the remote tier is ours (``host.remote``)."""
    remote_progress = _Named("remote-progress.json")
    """How far uploads have come."""
    standby = _Named("standby")
    """One directory for each process that waits to be an attempt, until it is one."""
    standby_told = _Named("standby.json")
    """``sentence``: how that process stands, for who asks from elsewhere."""
    script = _Named("script")
    """The script as it was when the run began, kept by the training side."""

    @property
    def compilations(self) -> Path:
        """What XLA compiled for the job, whichever of its runs it was."""
        return self.root.parent / "compilations"

    def attempt(self, number: int) -> AttemptPaths:
        """The files of attempt ``number`` (from 1)."""
        return AttemptPaths(self.root / "attempts" / f"{number:04d}")


def memory_directory(parent: Path, run_id: str) -> Path:
    """The memory tier of a run, in the tmpfs ``parent``, which may be a link."""
    return parent.resolve() / f"{MEMORY_PREFIX}{run_id}"


@dataclass(frozen=True, slots=True)
class StatePaths:
    """The layout below a state directory."""

    root: Path

    ledger = _Named("ledger.sqlite")
    """The SQLite file with runs, attempts and incidents."""

    def lock(self, job: str) -> Path:
        """Held by whoever supervises ``job``."""
        return self.root / "jobs" / job / "lock"

    def run(self, job: str, number: int) -> RunPaths:
        """The files of run ``number`` (from 1) of ``job``."""
        return RunPaths(self.root / "jobs" / job / f"run-{number}")
