"""A job that another command has in the foreground: real processes that hold its lock."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from supervisor.cli.command_group import trainwarden
from supervisor.cli.foreground.foreground_job import ForegroundJob
from supervisor.core.jobs.job_status import JobState
from supervisor.host.control.control_server import ControlServer, Request, Response
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths

HOLD = """
import os, signal, sys
from pathlib import Path
from supervisor.host.service.lock import acquire
how, user = sys.argv[2:]
os.setuid(int(user))
if how != "killed by it":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
held = acquire(Path(sys.argv[1]), supervises=how != "forgets")
print("held", flush=True)
signal.pause()
"""

CAUGHT = 75
"""Its exit code where SIGTERM was caught."""


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
                spec={"script": "train.py", "drain": {"grace": 90.0}},
                now=1.0,
            )
        yield root


@pytest.fixture
def running(state: Path) -> Iterator[subprocess.Popen[str]]:
    """Who runs it."""
    lock = StatePaths(state).lock("digits")
    lock.parent.mkdir(parents=True)
    with holding(lock) as process:
        yield process


@contextlib.contextmanager
def holding(
    lock: Path, how: str = "", user: int = os.getuid()
) -> Generator[subprocess.Popen[str]]:
    """A process that has the lock; ``how``: what is unlike a supervisor in it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock), how, str(user)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
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
    assert running.wait(timeout=60) == CAUGHT
    told = json.loads(done.stdout)
    assert (told["state"], told["pid"]) == ("draining", running.pid)
    assert "saved first if it trains (within 1 min 30 s); its" in told["message"]


def test_how_long_it_has_is_left_out_where_nobody_can_tell(
    state: Path, running: subprocess.Popen[str]
) -> None:
    """It is asked all the same."""
    StatePaths(state).ledger.write_bytes(b"no ledger")
    told = ForegroundJob("digits", running.pid, StatePaths(state).lock("digits")).end()
    assert running.wait(timeout=60) == CAUGHT
    assert "its state saved first if it trains; its command" in told["message"]


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


def test_a_link_to_the_lock_of_another_process(state: Path, tmp_path: Path) -> None:
    """The job's lock may be led to any file that holds a pid: what is there is left alone."""
    lock = StatePaths(state).lock("digits")
    lock.parent.mkdir(parents=True)
    lock.symlink_to(tmp_path / "other.pid")
    with holding(tmp_path / "other.pid") as other:
        assert invoke(state, "stop", "digits").exit_code == 1
        assert other.poll() is None


@pytest.mark.parametrize("how", ["forgets", "killed by it"])
@pytest.mark.parametrize("verb", ["stop", "drain"])
def test_who_is_no_supervisor_is_left_alone(state: Path, verb: str, how: str) -> None:
    """``forget`` takes the same lock; so may any program, which SIGTERM would kill."""
    lock = StatePaths(state).lock("digits")
    lock.parent.mkdir(parents=True)
    with holding(lock, how) as other:
        assert invoke(state, verb, "digits").exit_code == 1
        assert other.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("theirs", [".", "jobs", "jobs/digits", "jobs/digits/lock"])
def test_root_ends_nothing_of_its_own_for_another_user(
    state: Path, running: subprocess.Popen[str], theirs: str
) -> None:
    """A directory or lock of a user may have been put there to end what root runs."""
    os.chown(state / theirs, 65534, 65534)
    done = invoke(state, "stop", "digits")
    assert done.exit_code == 1
    assert f"kill -TERM {running.pid}" in done.output
    assert running.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_link_of_a_user_to_a_directory_of_root(
    state: Path, running: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Where it leads is root's, who made it is not."""
    link = tmp_path / "link"
    link.symlink_to(state)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    done = invoke(link, "stop", "digits")
    assert f"{link} belongs to" in done.output
    assert running.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_root_ends_what_a_user_runs_in_their_own(state: Path) -> None:
    """All of it is theirs: the lock, its directories, the process."""
    lock = StatePaths(state).lock("digits")
    lock.parent.mkdir(parents=True)
    lock.touch()
    for one in (state, *state.rglob("*")):
        os.chown(one, 65534, 65534)
    with holding(lock, user=65534) as process:
        assert invoke(state, "stop", "digits").exit_code == 0
        assert process.wait(timeout=60) == CAUGHT


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


@pytest.mark.parametrize("verb", ["stop", "drain", "start", "restart"])
def test_one_that_there_never_was(state: Path, verb: str) -> None:
    """As every other command says it; a daemon that is down may know it by a job file."""
    done = invoke(state, verb, "nope")
    assert done.exit_code == 2
    assert f"there is no job 'nope' in {state}; see `trainwarden status" in done.output
    (state / "daemon.lock").touch()
    done = invoke(state, verb, "nope")
    assert done.exit_code == 1
    assert "no daemon answers" in done.output


@pytest.mark.parametrize("verb", ["start", "restart"])
@pytest.mark.parametrize(
    ("how", "then"),
    [
        (
            JobState.FINISHED,
            "it is finished: the same `trainwarden run <> SCRIPT` begins a new",
        ),
        (
            JobState.DRAINED,
            "it is drained: the same `trainwarden run <> SCRIPT` lets it go on",
        ),
        (
            JobState.GAVE_UP,
            "it gave up: the same `trainwarden run <> SCRIPT` lets it go on",
        ),
    ],
)
def test_what_the_same_command_would_do(
    state: Path, verb: str, how: JobState, then: str
) -> None:
    """One that has come to its end does not go on."""
    with closing(Ledger(StatePaths(state).ledger)) as ledger:
        ledger.set_state(1, state=how, message="", overrides=None, ended_at=2.0)
    said = invoke(state, verb, "digits").output
    assert then.replace("<>", f"--state-dir {state}") in said


@pytest.mark.parametrize(("status", "ended"), [(404, True), (403, False), (503, False)])
def test_beside_a_daemon_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, *, ended: bool
) -> None:
    """Only one that says that it has no such job leaves no doubt which is meant."""
    monkeypatch.delenv("TRAINWARDEN_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TRAINWARDEN_SOCKET", str(tmp_path / "socket"))

    def refuse(request: Request) -> Response:
        known = request.path == "/v1/openapi.json"
        return Response(status=200 if known else status, body={"error": "no"})

    lock = StatePaths(tmp_path / "trainwarden").lock("digits")
    lock.parent.mkdir(parents=True)
    server = ControlServer(tmp_path / "socket", refuse)
    try:
        with holding(lock) as process:
            done = CliRunner().invoke(trainwarden, ["stop", "digits"])
            assert (done.exit_code == 0) is ended, done.output
            assert ("there may be two jobs" in done.output) is not ended
            assert (
                process.wait(timeout=60) == CAUGHT if ended else process.poll() is None
            )
    finally:
        server.close()


@pytest.mark.parametrize(
    "words",
    [["stop", "digits"], ["drain", "digits"], ["start", "digits"], ["stop", "--all"]],
)
def test_a_state_directory_that_is_not_there(tmp_path: Path, words: list[str]) -> None:
    """The same sentence as of the commands that read: no daemon is to be looked for."""
    place = tmp_path / "wrong"
    done, read = invoke(place, *words), invoke(place, "status")
    assert f"there is no state directory {place}" in done.output
    assert (done.output, done.exit_code) == (read.output, read.exit_code)
