"""What a job printed, read from its files where no daemon answers."""

import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from supervisor.cli.command_group import trainwarden
from supervisor.cli.commands.logs_command import Raw, Visible
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.lock import acquire
from supervisor.wire.paths import StatePaths


@pytest.fixture
def state(tmp_path: Path) -> StatePaths:
    """A state directory with a run of which no attempt has begun."""
    paths = StatePaths(tmp_path)
    with closing(Ledger(paths.ledger)) as ledger:
        ledger.begin_run(
            run_id="1",
            job="train",
            script="/a/train.py",
            script_hash="1",
            seed=1,
            spec={},
            now=1.0,
        )
    paths.lock("train").parent.mkdir(parents=True, exist_ok=True)
    return paths


def printed(state: StatePaths, number: int, text: str) -> None:
    """An attempt that printed ``text``."""
    attempt = state.run("train", 1).attempt(number)
    attempt.root.mkdir(parents=True)
    attempt.output.write_text(text)


def known(state: StatePaths, number: int) -> None:
    """An attempt that the ledger has."""
    with closing(Ledger(state.ledger)) as ledger:
        run = ledger.latest_run("train")
        assert run is not None
        ledger.put_attempt(run.id, AttemptHistory(number=number), now=2.0)


def logs(state: StatePaths, *arguments: str) -> Result:
    """The command on that directory."""
    given = ["logs", "train", "--state-dir", str(state.root), *arguments]
    return CliRunner().invoke(trainwarden, given)


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_of_no_attempt_there_is_nothing(
    state: StatePaths, follow: tuple[str, ...]
) -> None:
    """It is said, and not that there are 0 of 0."""
    said = logs(state, *follow)
    assert said.exit_code == 2
    assert "train has printed nothing: no attempt of it has begun" in said.stderr
    assert "has had 0 attempts, not 4" in logs(state, "--attempt", "4").stderr


def test_an_attempt_that_there_is_not(state: StatePaths) -> None:
    """As many as there are, in words that fit one."""
    known(state, 1)
    assert "train has had 1 attempt, not 9" in logs(state, "--attempt", "9").stderr


def test_a_terminal_is_told_where_another_attempt_begins(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """On a line of its own; what is followed into a pipe stays byte for byte."""
    for out, mark in ((Visible(), b"\n--- attempt 2 ---\n"), (Raw(), b"")):
        out.put(1, b"one")
        out.put(1, b"")
        out.put(2, b"")
        out.put(2, b"two\n")
        out.put(2, b"more\n")
        out.close()
        assert capfdbinary.readouterr().out == b"one" + mark + b"two\nmore\n"


def test_the_first_attempt_is_waited_for(state: StatePaths) -> None:
    """Where somebody looks after the job."""
    held = acquire(state.lock("train"))
    assert held is not None

    def begin() -> None:
        printed(state, 1, "one\n")
        held.release()

    later = threading.Timer(0.2, begin)
    later.start()
    said = logs(state, "-f")
    later.join()
    assert (said.exit_code, said.stdout) == (0, "one\n")


def test_an_attempt_that_could_not_be_started_is_passed_over(state: StatePaths) -> None:
    """It has printed nothing; what came after it has."""
    known(state, 1)
    printed(state, 1, "one\n")
    printed(state, 3, "three\n")
    assert logs(state, "-f").stdout == "one\nthree\n"
    assert logs(state).stdout == "one\n"
