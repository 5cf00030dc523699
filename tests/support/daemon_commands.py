"""Commands before a daemon of the box whose attempts are no processes."""

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from supervisor.cli.command_group import trainwarden
from supervisor.core.lifecycle.effects import Quarantine
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths
from tests.support.boxes import until

GPUS = ("GPU-a", "GPU-b")
ONE_AT_A_TIME = threading.Lock()
"""A daemon has one thread: who asks it without its socket waits for the end of its turn."""


def invoke(*words: str | Path) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(trainwarden, [str(word) for word in words])


def told(*words: str | Path) -> Any:
    """The JSON of a command that has to succeed."""
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def finished(tmp_path: Path) -> None:
    """A job ``train`` that has come to its end."""
    script = tmp_path / "train.py"
    script.touch()
    assert invoke("submit", script).exit_code == 0
    until(lambda: told("status")[0]["state"] == "finished")


def kept_out(directory: Path, *gpus: str) -> None:
    """GPUs that failed under an earlier run."""
    with contextlib.closing(Ledger(StatePaths(directory).ledger)) as ledger:
        run = ledger.begin_run(
            run_id="r", job="old", script="s", script_hash="h", seed=1, spec={}, now=1.0
        )
        effect = Quarantine(gpus=gpus, attempt=1, because="Xid 79")
        ledger.quarantine(run.id, effect, now=2.0)
