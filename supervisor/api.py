"""Trainwarden from Python: run a job to its end, read jobs and incidents.

Each call is a command in a process of its own, with the shapes of ``docs/json.md``: a
supervisor has signals, descriptors and a loop that a program keeps for itself.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.core.text.toml_text import toml
from supervisor.host.process.child_process import following, run_to_end

COMMAND = (sys.executable, "-c", "from supervisor.cli.entry import main; main()")
FINISHED, DRAINED = 0, 75
Json = dict[str, Any]


class RunRefusedError(Exception):
    """Nothing was started; the sentence says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended."""

    code: int
    """As of ``trainwarden run``: 0 finished, 1 gave up, 75 drained."""
    job: Json
    """Its status, as ``status --json`` has it."""
    incidents: list[Json]
    """All of this run, the oldest first."""

    @property
    def finished(self) -> bool:
        """Whether the script came to its end."""
        return self.code == FINISHED

    @property
    def drained(self) -> bool:
        """Whether the same call goes on from a saved state."""
        return self.code == DRAINED


def run(
    spec: Mapping[str, Any],
    *,
    state_dir: Path | str | None = None,
    options: Sequence[str] = (),
    on_event: Callable[[Json], object] = lambda _event: None,
) -> Result:
    """Run a job to its end, through crashes, as ``trainwarden run`` does.

    ``spec``: the keys of a spec, such as ``{"script": "train.py", "memory": {"cpu":
    "600MiB"}}``. ``options``: more of the command, such as ``--fresh``. ``on_event``
    gets each line of ``run --json`` as it comes. Ctrl-C reaches the run, which saves its
    state; KeyboardInterrupt follows when it has ended. Raises RunRefusedError, and what
    ``on_event`` raises, once the run was asked to end and has.
    """
    with tempfile.TemporaryDirectory(prefix="trainwarden-") as directory:
        file, complaints = Path(directory) / "spec.toml", Path(directory) / "stderr"
        file.write_text(toml(spec), encoding="utf-8")
        words = ("run", "--json", *_state(state_dir), "--spec", str(file), *options)
        ended: Json | None = None
        with following([*COMMAND, *words], complaints=complaints) as lines:
            for line in lines:
                event: Json = json.loads(line)
                on_event(event)
                ended = event if event["event"] == "ended" else None
        said = complaints.read_text(encoding="utf-8", errors="replace")
    if ended is None:
        raise RunRefusedError(_sentence(said))
    return Result(ended["code"], ended["job"], ended["incidents"])


def jobs(*, state_dir: Path | str | None = None) -> list[Json]:
    """Every job of the daemon, or of a state directory: ``status --json``."""
    return _asked("status", *_state(state_dir))


def incidents(
    job: str | None = None, *, state_dir: Path | str | None = None
) -> list[Json]:
    """What went wrong, the oldest first: ``incidents --json``."""
    return _asked("incidents", *_state(state_dir), *([] if job is None else [job]))


def _asked(*words: str) -> list[Json]:
    done = run_to_end([*COMMAND, words[0], "--json", *words[1:]])
    if done.returncode:
        raise RunRefusedError(_sentence(done.stderr))
    found: list[Json] = json.loads(done.stdout)
    return found


def _state(state_dir: Path | str | None) -> list[str]:
    return [] if state_dir is None else ["--state-dir", str(state_dir)]


def _sentence(said: str) -> str:
    return said.strip().removeprefix("trainwarden: ")
