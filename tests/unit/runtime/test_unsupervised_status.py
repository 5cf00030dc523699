"""What is said of a run that nobody looks after: real processes, a real ledger."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.launch import systemctl
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.process.proc_files import stat
from supervisor.runtime.stored_status import stored_statuses
from supervisor.wire.files import write_json
from supervisor.wire.paths import StatePaths

UNIT = "trainwarden-attempt-alice@digits-1.service"


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    """A state directory in which the first attempt of ``digits`` has begun."""
    return StatePaths(tmp_path)


@pytest.fixture
def ledger(paths: StatePaths) -> Iterator[Ledger]:
    """Its ledger."""
    with closing(Ledger(paths.ledger)) as ledger:
        ledger.begin_run(
            run_id="digits-1",
            job="digits",
            script="/a/train.py",
            script_hash="1",
            seed=1,
            spec={"script": "train.py"},
            now=1.0,
        )
        ledger.put_attempt(1, AttemptHistory(number=1), now=1.0)
        yield ledger


def trains(paths: StatePaths, pid: int) -> None:
    """Process ``pid`` is its training."""
    known = stat(pid)
    assert known is not None
    files = paths.run("digits", 1).attempt(1).root
    files.mkdir(parents=True)
    write_json(
        files / "shimmed.json",
        {
            "shim_pid": pid,
            "shim_started_ticks": known.started_ticks,
            "pid": pid,
            "boot_id": boot_id(),
            "started_ticks": known.started_ticks,
        },
    )


def by_daemon(ledger: Ledger) -> None:
    """A daemon has it."""
    JobBook(ledger).put(
        "digits", owner="alice", spec={"script": "train.py"}, source=None, now=1.0
    )
    JobBook(ledger).begun("digits")


def told(ledger: Ledger, paths: StatePaths) -> JobStatus:
    """Its status."""
    (found,) = stored_statuses(ledger, paths, now=2.0)
    assert found.state is JobState.INTERRUPTED
    return found


def test_of_the_foreground(ledger: Ledger, paths: StatePaths) -> None:
    """The same command resumes it, once nothing of it trains any more."""
    assert "run the same command again to resume" in told(ledger, paths).message
    trains(paths, os.getpid())
    assert "training goes on" in told(ledger, paths).message


def test_of_a_daemon(ledger: Ledger, paths: StatePaths) -> None:
    """Not the same command but the daemon goes on with it."""
    by_daemon(ledger)
    message = told(ledger, paths).message
    assert message.startswith("its daemon does not run: start it")
    trains(paths, os.getpid())
    message = told(ledger, paths).message
    assert f"training goes on in process {os.getpid()}, but its daemon" in message
    assert "start the daemon" in message


def test_in_its_unit(
    ledger: Ledger, paths: StatePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit runs, although who asks cannot read the files of its user."""
    by_daemon(ledger)
    command = tmp_path / "bin" / "systemctl"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho ActiveState="$(cat "$0.state")"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    monkeypatch.setattr(systemctl, "RUNTIME", tmp_path)
    for state, runs in (("active", True), ("failed", False)):
        command.with_name("systemctl.state").write_text(state)
        message = told(ledger, paths).message
        assert (f"training goes on in its unit {UNIT}, but" in message) is runs
    command.write_text("#!/bin/sh\nexit 1\n")
    assert "unit" not in told(ledger, paths).message
