"""Attempts without a supervisor: real scripts, in real processes, by a directive."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import EventReader, Record
from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.page import Page, read_page
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.end_records import CrashReport
from tests.support.zygote import Zygote

LAUNCH = Path(__file__).parents[2] / "trainers" / "launch.py"
PATIENCE = 120.0


@dataclass(frozen=True)
class AttemptOutcome:
    """How an attempt ended, and what it left behind."""

    code: int
    """Exit code; negative: the signal that ended it."""
    out: str
    err: str
    paths: AttemptPaths

    @property
    def records(self) -> list[Record]:
        """Its event file."""
        return EventReader(self.paths.events).poll()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The fields of the records of one kind."""
        return [record.fields for record in self.records if record.kind == kind]

    @property
    def page(self) -> Page:
        """Its last page."""
        page = read_page(self.paths.page)
        assert page is not None
        return page

    @property
    def crash(self) -> CrashReport:
        """Its crash report."""
        value = read_json(self.paths.crash)
        assert value is not None
        report = CrashReport.from_json(value)
        assert report is not None
        return report


@dataclass
class Attempts:
    """The attempts of one run, in a directory of its own."""

    directory: Path
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    count: int = 0
    zygote: Zygote | None = None
    """What ``run`` forks from: it saves the import of TensorFlow."""

    @property
    def snapshots(self) -> Path:
        """The durable tier."""
        return self.directory / "snapshots"

    def script(self, text: str, name: str = "train.py") -> Path:
        """A script with this text."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def directive(self, script: Path, *args: str, **changes: Any) -> Directive:
        """What the next attempt is asked for."""
        values: dict[str, Any] = {
            "run_id": "run",
            "job": "job",
            "attempt": self.count,
            "script": str(script),
            "args": args,
            "attempt_directory": str(self.directory / f"attempt-{self.count}"),
            "snapshot_directory": str(self.snapshots),
            "memory_directory": None,
            "seed": 20,
            "restore": True,
            "restore_before_step": None,
            "slice_size": None,
            "calibrate": False,
            "slice_ceiling": None,
            "memory_limit_bytes": None,
            "gpu_memory_limit_bytes": None,
            "gpu_memory_growth": True,
            "allow_inexact": True,
            "snapshot_every_seconds": None,
            "snapshot_every_steps": None,
            "memory_every_seconds": None,
            "memory_every_steps": None,
            "snapshot_budget": 0.01,
            "mean_seconds_between_failures": 86400.0,
            "snapshot_quota_bytes": None,
            "snapshots_kept": 3,
            "deterministic": False,
        }
        return Directive(**{**values, **self.options, **changes})

    def start(
        self,
        script: Path,
        *args: str,
        environment: dict[str, str] | None = None,
        plain: bool = False,
        **changes: Any,
    ) -> tuple[subprocess.Popen[str], AttemptPaths]:
        """Start the next attempt; ``plain``: by Python alone, without us."""
        paths = self._next(script, *args, **changes)
        supervised = [str(LAUNCH), str(paths.directive)]
        command = [str(script), *args] if plain else supervised
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=script.parent,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return process, paths

    def _next(self, script: Path, *args: str, **changes: Any) -> AttemptPaths:
        """The directory of the next attempt, with its directive."""
        self.count += 1
        directive = self.directive(script, *args, **changes)
        paths = AttemptPaths(Path(directive.attempt_directory))
        paths.root.mkdir(parents=True)
        write_json(paths.directive, directive.to_json())
        return paths

    def _fork(
        self,
        script: Path,
        *args: str,
        environment: dict[str, str] | None = None,
        plain: bool = False,
        **changes: Any,
    ) -> AttemptOutcome:
        assert self.zygote is not None
        paths = self._next(script, *args, **changes)
        out, err = paths.root / "out.txt", paths.root / "err.txt"
        supervised = {"launch": str(paths.directive)}
        code = self.zygote.run(
            **({"script": str(script), "args": args} if plain else supervised),
            cwd=str(script.parent),
            environment=environment or {},
            output=str(out),
            errors=str(err),
        )
        return AttemptOutcome(code, out.read_text(), err.read_text(), paths)

    def run(self, script: Path, *args: str, **options: Any) -> AttemptOutcome:
        """Run the next attempt to its end."""
        if self.zygote is not None:
            return self._fork(script, *args, **options)
        process, paths = self.start(script, *args, **options)
        out, err = process.communicate(timeout=PATIENCE)
        return AttemptOutcome(process.returncode, out, err, paths)


def read_result(path: Path) -> Any:
    """What a script left as JSON."""
    return json.loads(path.read_text())
