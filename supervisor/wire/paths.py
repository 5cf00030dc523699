"""Where the files of a run lie: ``STATE/jobs/NAME/run-N/attempts/0001/…``."""

from dataclasses import dataclass
from pathlib import Path

MEMORY_PREFIX = "trainwarden-"
"""How the directories of memory tiers begin; the run's id follows."""

STORE_LOCK = ".lock"
"""In the durable tier: training holds a record lock (``fcntl``) on it."""

OWNER = "owner.json"
"""In each: ``snapshots``, the durable tier of the same run. Where that is gone, the
memory is nobody's any more."""


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """The files of one attempt (one training process)."""

    root: Path

    @property
    def directive(self) -> Path:
        """What the supervisor asks of this attempt (``directive.Directive``)."""
        return self.root / "directive.json"

    @property
    def page(self) -> Path:
        """The telemetry page, mapped by both sides."""
        return self.root / "page"

    @property
    def events(self) -> Path:
        """The append-only event file: a JSON object a line."""
        return self.root / "events.jsonl"

    @property
    def output(self) -> Path:
        """Standard output and standard error of training, as they came."""
        return self.root / "output.log"

    @property
    def crash(self) -> Path:
        """The crash report of an uncaught Python exception."""
        return self.root / "crash.json"

    @property
    def fault(self) -> Path:
        """The stacks that faulthandler writes on a fatal signal, or when asked."""
        return self.root / "fault.log"

    @property
    def exit(self) -> Path:
        """The exit record, written by the shim after the last process is gone."""
        return self.root / "exit.json"

    @property
    def dumps(self) -> Path:
        """Allocator dumps (``MemoryDump`` protobufs) that TensorFlow writes on OOM."""
        return self.root / "dumps"

    @property
    def memory_request(self) -> Path:
        """Somebody asks for the allocator's map: training removes it and answers."""
        return self.root / "memory-request"

    @property
    def memory_map(self) -> Path:
        """The answer's map: a ``MemoryDump``; written before ``memory_answer``."""
        return self.root / "memory.map"

    @property
    def memory_answer(self) -> Path:
        """The answer: who holds what (``memory.Answer``)."""
        return self.root / "memory.json"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run of a job: all its attempts share the snapshots."""

    root: Path

    @property
    def snapshots(self) -> Path:
        """The durable tier: one directory a snapshot."""
        return self.root / "snapshots"

    @property
    def script(self) -> Path:
        """The script as it was when the run began, kept by the training side."""
        return self.root / "script"

    def attempt(self, number: int) -> AttemptPaths:
        """The files of attempt ``number`` (from 1)."""
        return AttemptPaths(self.root / "attempts" / f"{number:04d}")


def memory_directory(parent: Path, run_id: str) -> Path:
    """The memory tier of a run, in the tmpfs ``parent``."""
    return parent / f"{MEMORY_PREFIX}{run_id}"


@dataclass(frozen=True, slots=True)
class StatePaths:
    """The layout below a state directory."""

    root: Path

    @property
    def ledger(self) -> Path:
        """The SQLite file with runs, attempts and incidents."""
        return self.root / "ledger.sqlite"

    def lock(self, job: str) -> Path:
        """Held by whoever supervises ``job``."""
        return self.root / "jobs" / job / "lock"

    def run(self, job: str, number: int) -> RunPaths:
        """The files of run ``number`` (from 1) of ``job``."""
        return RunPaths(self.root / "jobs" / job / f"run-{number}")
