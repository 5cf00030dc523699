"""``run`` on scripts without a framework: everything but training, in a second each."""

import contextlib
import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command import PATIENCE, Trainwarden
from tests.support.samples import sampled


def test_a_clean_end(trainwarden: Trainwarden) -> None:
    """A script that ends well ends the run with 0, without an incident."""
    script = trainwarden.script("import sys; print('args', sys.argv[1:])")
    done = trainwarden("run", script, "--name", "its own", "-x")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "args ['--name', 'its own', '-x']\n"
    assert "finished in one attempt" in done.stderr
    status = trainwarden.status()
    assert status is not None
    assert (status["job"], status["state"], status["attempt"]) == (
        "train",
        "finished",
        1,
    )
    assert trainwarden.json("incidents") == []
    log = next(trainwarden.state.rglob("output.log")).read_text()
    assert log == "args ['--name', 'its own', '-x']\n"


def test_an_error_of_its_own_is_shown_and_not_restarted(
    trainwarden: Trainwarden,
) -> None:
    """A restart cannot help; the traceback is the script's, without a line of ours."""
    script = trainwarden.script("def f():\n    return {}['lr']\n\nf()\n")
    done = trainwarden("run", script)
    assert done.returncode == 1
    assert "KeyError: 'lr'" in done.stdout
    assert "before its first step" in done.stderr
    assert "trainers" not in done.stdout.partition("Traceback")[2]
    (incident,) = trainwarden.json("incidents", "train")
    assert (incident["cause"], incident["remedy"]["kind"]) == ("user_error", "stop")
    assert set(incident) >= {
        "id", "job", "attempt", "at", "cause", "because", "remedy", "failed_step",
        "restored_step", "lost_steps", "downtime_seconds",
    }  # fmt: skip
    explained = trainwarden("explain", str(incident["id"]))
    assert "KeyError" in explained.stdout


def test_a_drain_that_comes_too_late_changes_nothing(
    trainwarden: Trainwarden,
) -> None:
    """A SIGTERM after the script's last line finds a finished run."""
    script = trainwarden.script(
        "import atexit, os, signal, time\n"
        "atexit.register(time.sleep, 0.2)\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
    )
    done = trainwarden("run", script)
    assert done.returncode == 0, done.stdout
    assert trainwarden.json("incidents", "train") == []


@pytest.mark.parametrize(
    ("dies", "allowed", "restarts"),
    [
        pytest.param("os.kill(os.getpid(), 9)", 3, 9, marks=pytest.mark.slow),
        ("os.abort()", 2, 2),
    ],
    ids=["killed", "crashes"],
)
def test_a_script_that_dies_each_time_gives_up(
    trainwarden: Trainwarden, dies: str, allowed: int, restarts: int
) -> None:
    """After as many restarts as are allowed. Whoever kills it does not know when: that
    goes on for longer, but ten times before a step is no accident."""
    spec = trainwarden.directory / "job.toml"
    script = trainwarden.script(f"import os; {dies}")
    spec.write_text(
        f'script = "{script}"\n[restart]\nwithout_progress = {allowed}\n'
        'back_off = "10ms"\n'
    )
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 1, done.stdout
    incidents = trainwarden.json("incidents")
    kinds = [item["remedy"]["kind"] for item in incidents]
    assert kinds == ["restart"] * restarts + ["stop"]


def test_sigterm_ends_with_75_and_the_same_command_goes_on(
    trainwarden: Trainwarden,
) -> None:
    """Nothing is lost, and the second run of the command finishes."""
    script = trainwarden.script(
        "import pathlib, time\n"
        "if not pathlib.Path('again').exists():\n"
        "    pathlib.Path('again').touch(); time.sleep(120)\n"
    )
    process = trainwarden.start("run", script)
    trainwarden.until(lambda s: s["pid"] is not None)
    while not (trainwarden.directory / "again").exists():
        pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 75
    status = trainwarden.status()
    assert status is not None
    assert status["state"] == "drained"
    done = trainwarden("run", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert trainwarden.json("incidents") == []


def test_a_terminal_shows_a_live_line_and_ctrl_c_drains(
    trainwarden: Trainwarden,
) -> None:
    """In a terminal the line changes in place, and Ctrl-C ends with 75."""
    script = trainwarden.script("import time; time.sleep(120)")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(trainwarden.directory)
        command = trainwarden.command("run", script)
        os.execv(command[0], command)  # noqa: S606  # no shell is wanted
    shown = b""
    while "train · running".encode() not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # EIO: the other side has closed it
        while chunk := os.read(terminal, 4096):
            shown += chunk
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 75
    assert b"Ctrl-C: saving a snapshot" in shown


def test_a_log_is_followed_without_a_daemon(trainwarden: Trainwarden) -> None:
    """As it is printed, through a crash, to the end of the run."""
    script = trainwarden.script(
        "import os, pathlib, signal, time\n"
        "print('here', flush=True)\n"
        "if not pathlib.Path('again').exists():\n"
        "    pathlib.Path('again').touch()\n"
        "    while not pathlib.Path('followed').exists(): time.sleep(0.05)\n"
        "    print('kill', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "print('done', flush=True)\n"
    )
    running = trainwarden.start("run", script)
    trainwarden.until(lambda status: status["pid"] is not None)
    following = trainwarden.start("logs", "-f", "train")
    assert following.stdout is not None
    assert following.stdout.readline() == "here\n"
    (trainwarden.directory / "followed").touch()
    said, _ = following.communicate(timeout=PATIENCE)
    assert (following.returncode, said) == (0, "kill\nhere\ndone\n")
    assert running.wait(PATIENCE) == 0


def test_a_reader_that_goes_away_does_not_end_the_run(
    trainwarden: Trainwarden,
) -> None:
    """``trainwarden run … | head`` trains to the end, and ends with its own code."""
    script = trainwarden.script("import time; time.sleep(2)")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        trainwarden.command("run", script),
        cwd=trainwarden.directory,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    os.close(reader)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert all(line.startswith(("trainwarden: ", "  ")) for line in errors.splitlines())
    status = trainwarden.status()
    assert status is not None
    assert (status["state"], status["attempt"]) == ("finished", 1)


def test_a_closed_terminal_drains(trainwarden: Trainwarden) -> None:
    """SIGHUP ends the run with its state saved, unless it was told to ignore it."""
    script = trainwarden.script("import time; time.sleep(120)")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have ignored it
    try:
        process = trainwarden.start("run", script)
    finally:
        signal.signal(signal.SIGHUP, before)
    trainwarden.until(lambda s: s["pid"] is not None)
    process.send_signal(signal.SIGHUP)
    assert process.wait(PATIENCE) == 75


@pytest.mark.slow
def test_nohup_is_respected(trainwarden: Trainwarden) -> None:
    """A run that was told to ignore SIGHUP trains on without its terminal."""
    script = trainwarden.script(
        "import pathlib, time\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = trainwarden.start("run", script)
    finally:
        signal.signal(signal.SIGHUP, before)
    trainwarden.until(lambda s: s["pid"] is not None)
    process.send_signal(signal.SIGHUP)
    (trainwarden.directory / "go").touch()
    assert process.wait(PATIENCE) == 0


def test_one_run_of_a_job_at_a_time(trainwarden: Trainwarden) -> None:
    """A second run of a running job is refused in one sentence."""
    script = trainwarden.script("import time; time.sleep(120)")
    trainwarden.start("run", script)
    trainwarden.until(lambda s: s["pid"] is not None)
    done = trainwarden("run", script)
    assert done.returncode == 2
    assert "is already run by process" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    other = trainwarden("run", "--name", "other", trainwarden.script("", "other.py"))
    assert other.returncode == 0


def test_a_supervisor_that_is_killed_loses_nothing(trainwarden: Trainwarden) -> None:
    """Training is drained, status tells what happened, the same command goes on."""
    script = trainwarden.script(
        "import pathlib, time\n"
        "if not pathlib.Path('again').exists():\n"
        "    pathlib.Path('again').touch(); time.sleep(120)\n"
    )
    process = trainwarden.start("run", script)
    while not (trainwarden.directory / "again").exists():
        pass
    process.kill()
    process.wait(PATIENCE)
    status = trainwarden.until(lambda s: s["pid"] is None)
    assert status["state"] == "interrupted"
    assert "same command" in status["message"]
    done = trainwarden("run", script)
    assert done.returncode == 0, done.stdout + done.stderr


BAD_USAGE = {
    "run": "which script?",
    "run missing.py": "there is no script missing.py",
    "run --cpu-memory lots train.py": "--cpu-memory: expected a size",
    "run --snapshot-every 3 train.py": "--snapshot-every: expected",
    "run --gpus a,b train.py": "--gpus: expected a GPU's index",
    "run --metrics nowhere train.py": "--metrics: expected",
    "run --name ../x train.py": "--name: expected a name",
    "run --spec missing.toml": "cannot read the spec missing.toml",
    "run --spec bad.toml": "is not valid TOML",
    "run --no-such-option train.py": "there is no option",
    "run --metrics 192.0.2.1:1 train.py": "192.0.2.1:1",
}


@pytest.mark.parametrize(
    "line", sampled(BAD_USAGE, "run", "run --metrics 192.0.2.1:1 train.py")
)
def test_bad_usage(trainwarden: Trainwarden, line: str) -> None:
    """What cannot be used ends with 2, a sentence, and nothing started."""
    trainwarden.script("print('started')")
    (trainwarden.directory / "bad.toml").write_text("script = ")
    done = trainwarden(*line.split())
    assert done.returncode == 2, done.stdout
    assert BAD_USAGE[line] in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(trainwarden.state.rglob("output.log"))


@pytest.mark.slow
def test_every_problem_of_a_spec_is_told_at_once(trainwarden: Trainwarden) -> None:
    """A person mends a spec in one go."""
    spec = trainwarden.directory / "job.toml"
    spec.write_text('nam = "x"\n[memory]\ncpu = 7.5\n[snapshots]\nkeep = "many"\n')
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 2
    for path in ("script: ", "nam: ", "memory.cpu: ", "snapshots.keep: "):
        assert f"\n  {path}" in done.stderr


def test_a_state_directory_that_cannot_be_written(trainwarden: Trainwarden) -> None:
    """The sentence names the directory and the option that helps."""
    script = trainwarden.script("")
    blocked = trainwarden.directory / "file"
    blocked.touch()
    done = trainwarden("run", script, state=blocked / "state")
    assert done.returncode == 2
    assert "--state-dir" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def mounted(directory: Path, options: str) -> None:
    """A tmpfs at ``directory``; only root may, elsewhere the test is skipped."""
    directory.mkdir()
    made = subprocess.run(
        ["/usr/bin/mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to mount a tmpfs: {made.stderr!r}")
        pytest.skip("mounting a tmpfs needs root")


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ("ro", 2, "Read-only file system"),
        pytest.param("size=4k", 1, "is full", marks=pytest.mark.slow),
        ("size=28k", 1, "full"),
    ],
)
def test_a_read_only_and_a_full_disk(
    trainwarden: Trainwarden, options: str, code: int, sentence: str
) -> None:
    """Neither ends in a traceback."""
    script = trainwarden.script("")
    disk = trainwarden.directory / "disk"
    mounted(disk, options)
    try:
        done = trainwarden("run", script, state=disk / "state")
    finally:
        subprocess.run(["/usr/bin/umount", str(disk)], check=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_changed_script_is_not_resumed_silently(trainwarden: Trainwarden) -> None:
    """Without a snapshot the new script simply runs."""
    script = trainwarden.script("raise SystemExit(3)")
    assert trainwarden("run", script).returncode == 1
    status = trainwarden.status()
    assert status is not None
    assert status["attempt"] == 1
    script.write_text("print('mended')")
    assert trainwarden("run", script).returncode == 0


def test_reading_where_nothing_ran(trainwarden: Trainwarden) -> None:
    """Commands that read say so, and fail where a name or an id is wrong."""
    done = trainwarden("status")
    assert done.returncode == 2
    assert "nothing ran there yet" in done.stderr
    trainwarden("run", trainwarden.script(""))
    assert trainwarden("incidents").stdout == "no incidents\n"
    assert trainwarden("incidents", "nobody").returncode == 2
    assert trainwarden("explain", "99").returncode == 2


def test_output_that_is_no_text(trainwarden: Trainwarden) -> None:
    """Bytes of any kind are kept as they came."""
    script = trainwarden.script(
        "import os; os.write(1, b'\\xff\\xfe no newline'); raise SystemExit(1)"
    )
    done = trainwarden("run", script)
    assert done.returncode == 1
    assert "no newline" in done.stdout
    log = next(trainwarden.state.rglob("output.log")).read_bytes()
    assert log == b"\xff\xfe no newline"
    assert json.dumps(trainwarden.json("incidents"))
