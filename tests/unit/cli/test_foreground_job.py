"""A job that another command has in the foreground: real processes that hold its lock."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from supervisor.cli.command_group import trainwarden
from supervisor.core.jobs.job_status import JobState
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths

HOLD = """
import signal, sys
from pathlib import Path
from supervisor.host.service.lock import acquire
held = acquire(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory in which ``digits`` has begun; another user may look into it."""
    monkeypatch.delenv("TRAINWARDEN_STATE_DIR", raising=False)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        with closing(Ledger(StatePaths(root).ledger)) as ledger:
            ledger.begin_run(
                run_id="digits-1",
                job="digits",
                script="/a/train.py",
                script_hash="1",
                seed=1,
                spec={"script": "train.py"},
                now=1.0,
            )
        yield root


@pytest.fixture
def running(state: Path) -> Iterator[subprocess.Popen[str]]:
    """Who runs it."""
    lock = StatePaths(state).lock("digits")
    lock.parent.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def invoke(state: Path, *words: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(trainwarden, [*words, "--state-dir", str(state)])


@pytest.mark.parametrize("verb", ["stop", "drain"])
def test_it_is_asked_as_by_ctrl_c(
    state: Path, running: subprocess.Popen[str], verb: str
) -> None:
    """Its supervisor gets SIGTERM, which saves its state; who it was is told."""
    done = invoke(state, verb, "digits", "--json")
    assert done.exit_code == 0, done.output
    assert running.wait(timeout=60) == -signal.SIGTERM
    told = json.loads(done.stdout)
    assert (told["state"], told["pid"]) == ("draining", running.pid)
    assert "Ctrl-C" in told["message"]


@pytest.mark.parametrize("verb", ["restart", "start", "forget"])
def test_what_only_a_daemon_does_says_what_to_do(
    state: Path, running: subprocess.Popen[str], verb: str
) -> None:
    """Its process, and a command that works when it is pasted; it goes on."""
    done = invoke(state, verb, "digits")
    assert done.exit_code == 1
    assert f"in the foreground (process {running.pid})" in done.output
    assert f"`trainwarden stop digits --state-dir {state}`" in done.output
    assert running.poll() is None


def test_who_does_not_hold_the_lock_is_not_signalled(
    state: Path, running: subprocess.Popen[str]
) -> None:
    """The number in the file is a hint that its owner may have written."""
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"]
    )
    StatePaths(state).lock("digits").write_text(f"{bystander.pid}\n")
    try:
        assert invoke(state, "stop", "digits").exit_code == 1
        assert bystander.poll() is None
        assert running.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_it_is_another_users(state: Path, running: subprocess.Popen[str]) -> None:
    """They are told whose it is, and nothing happens to it."""
    StatePaths(state).lock("digits").chmod(0o644)
    os.seteuid(65534)
    try:
        done = invoke(state, "stop", "digits")
    finally:
        os.seteuid(0)
    assert done.exit_code == 1
    assert f"run by root (process {running.pid})" in done.output
    assert running.poll() is None


@pytest.mark.parametrize("verb", ["stop", "drain", "start", "restart"])
def test_one_that_is_over(state: Path, verb: str) -> None:
    """How it stands, not that there is no daemon, which never had it."""
    with closing(Ledger(StatePaths(state).ledger)) as ledger:
        ledger.set_state(
            1, state=JobState.DRAINED, message="", overrides=None, ended_at=2.0
        )
    done = invoke(state, verb, "digits")
    assert done.exit_code == 1
    assert "digits does not run, it is drained: " in done.output
    assert "daemon" not in done.output
