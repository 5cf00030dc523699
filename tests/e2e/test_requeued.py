"""``run`` under a scheduler, which signals when it likes and starts it again by itself."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tests.support.command import PATIENCE, Trainwarden

WAITS = (
    "import pathlib, sys, time\n"
    "pathlib.Path('begun').touch()\n"
    "while not pathlib.Path('go').exists():\n"
    "    time.sleep(0.05)\n"
)


def begun(trainwarden: Trainwarden, script: Path) -> subprocess.Popen[str]:
    """A run whose script waits."""
    process = trainwarden.start("run", script)
    ends = time.monotonic() + PATIENCE
    while not (trainwarden.directory / "begun").exists():
        assert time.monotonic() < ends
        time.sleep(0.05)
    return process


def catches_sigterm(pid: int) -> bool:
    """Whether it handles the signal by now (proc(5))."""
    (caught,) = re.findall(r"^SigCgt:\t(\w+)$", status_file(pid), re.MULTILINE)
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def status_file(pid: int) -> str:
    """What the kernel says of a process."""
    return Path(f"/proc/{pid}/status").read_text()


def test_a_storm_of_sigterm_is_one_request(trainwarden: Trainwarden) -> None:
    """Also while the command ends: its exit code is that of a drain, not of a signal."""
    process = begun(trainwarden, trainwarden.script(WAITS))
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.002)
    assert process.returncode == 75


def test_a_sigterm_before_anything_began_asks_to_come_again(
    trainwarden: Trainwarden,
) -> None:
    """While it waits for the lock of another, say: nothing was started, run it again."""
    script = trainwarden.script(WAITS)
    first = begun(trainwarden, script)
    second = subprocess.Popen(
        trainwarden.command("run", "--requeued", script),
        cwd=trainwarden.directory,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not catches_sigterm(second.pid):
        assert second.poll() is None
        time.sleep(0.05)
    second.send_signal(signal.SIGTERM)
    _, errors = second.communicate(timeout=PATIENCE)
    assert (second.returncode, errors) == (
        75,
        "trainwarden: SIGTERM: ended before anything had begun\n",
    )
    assert first.poll() is None
    (trainwarden.directory / "go").touch()
    assert first.wait(PATIENCE) == 0


def test_a_requeued_run_waits_for_the_one_before(trainwarden: Trainwarden) -> None:
    """A person is told at once that the job runs already."""
    script = trainwarden.script(WAITS)
    first = begun(trainwarden, script)
    refused = trainwarden("run", script)
    assert (refused.returncode, "is already run" in refused.stderr) == (2, True)
    second = trainwarden.start("run", "--requeued", script)
    while not catches_sigterm(second.pid):
        assert second.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    assert second.poll() is None
    (trainwarden.directory / "go").touch()
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait(PATIENCE) in {0, 75}
    assert second.wait(PATIENCE) == 0


def test_what_has_finished_is_not_done_again(trainwarden: Trainwarden) -> None:
    """A scheduler may lose sight of an end. Who means it starts the run without it."""
    script = trainwarden.script("open('runs', 'a').write('x')")
    assert trainwarden("run", "--requeued", script).returncode == 0  # there was none
    again = trainwarden("run", "--requeued", script)
    assert (again.returncode, "has finished before" in again.stderr) == (0, True)
    assert (trainwarden.directory / "runs").read_text() == "x"
    assert trainwarden("run", script).returncode == 0
    assert (trainwarden.directory / "runs").read_text() == "xx"


def test_a_script_that_was_edited_in_the_queue_goes_on_as_it_was(
    trainwarden: Trainwarden,
) -> None:
    """Nobody waits for an answer, and the next experiment is written meanwhile."""
    process = begun(trainwarden, trainwarden.script(WAITS + "print('as it was')\n"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 75
    (trainwarden.directory / "go").touch()
    edited = trainwarden.script("print('edited')")
    done = trainwarden("run", "--requeued", edited)
    assert done.returncode == 0, done.stdout + done.stderr
    log = max(trainwarden.state.rglob("output.log")).read_text()
    assert "as it was" in log
    assert "edited" not in log


def test_to_go_on_and_to_begin_anew_are_two_things(trainwarden: Trainwarden) -> None:
    """A scheduler would throw everything away each time."""
    done = trainwarden("run", "--fresh", "--requeued", trainwarden.script(""))
    assert (done.returncode, "choose one" in done.stderr) == (2, True)
