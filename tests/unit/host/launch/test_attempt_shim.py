"""The shim: real processes, real signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from supervisor.host.launch import attempt_shim
from supervisor.wire.records.end_records import ExitRecord, Shimmed

SHIM = [sys.executable, "-I", "-S", str(Path(attempt_shim.__file__))]
ROOT = str(Path(__file__).parents[4])
PATIENCE = 20.0


def start(directory: Path, *command: str) -> subprocess.Popen[bytes]:
    """Start the shim."""
    return subprocess.Popen([*SHIM, str(directory), "--", *command])


def run(directory: Path, *command: str) -> ExitRecord:
    """Run the shim to its end."""
    process = start(directory, *command)
    assert process.wait(PATIENCE) == 0
    return exit_record(directory)


def exit_record(directory: Path) -> ExitRecord:
    """What the shim wrote."""
    record = ExitRecord.from_json(json.loads((directory / "exit.json").read_text()))
    assert record is not None
    return record


def await_file(path: Path) -> str:
    """Wait until a file has content."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.01)
    pytest.fail(f"{path} did not appear")


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"


def await_death(pid: int) -> None:
    """Wait until a process is gone."""
    deadline = time.monotonic() + PATIENCE
    while alive(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
        time.sleep(0.01)


@pytest.mark.parametrize("code", [0, 3, 75])
def test_an_exit_code_is_recorded(tmp_path: Path, code: int) -> None:
    """What training passes to ``exit`` stands in the exit record."""
    record = run(tmp_path, "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (record.exit_code, record.signal) == (code, None)
    assert (tmp_path / "output.log").read_text() == "out\nerr\n"
    assert record.ended_ns > record.started_ns
    assert record.max_rss_bytes > 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_is_recorded(tmp_path: Path, number: signal.Signals) -> None:
    """A signal's death has no exit code."""
    record = run(tmp_path, "sh", "-c", f"kill -{int(number)} $$")
    assert (record.exit_code, record.signal) == (None, number)


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    """It ends with 127, as in a shell, and the log says why."""
    record = run(tmp_path, str(tmp_path / "no-such-python"))
    assert record.exit_code == 127
    assert "cannot start" in (tmp_path / "output.log").read_text()


def test_the_log_stays_small(tmp_path: Path) -> None:
    """Its head, its tail and what is new stay on disk; offsets stay what they were; what
    the program was not ready to give up it keeps; and how it ended is recorded."""
    floods = (
        "import pathlib, time\n"
        "print('first', flush=True)\n"
        "go = pathlib.Path('go')\n"
        "while not go.exists():\n"
        "    print('x' * 40000, flush=True); time.sleep(0.01)\n"
        "print('last')\n"
    )
    caps = (
        "import sys; from supervisor.host.launch import attempt_shim as shim; shim.LOG_SECONDS = 0.1; "
        "shim.main(sys.argv[1:])"
    )
    log = tmp_path / "output.log"
    options = ["--detached", "--log=4096,65536,65536"]
    process = subprocess.Popen(
        [sys.executable, "-c", caps, *options, str(tmp_path), "--", sys.executable,
         "-c", floods], cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE
    while not log.exists() or log.stat().st_size < 2 * taken(log) + (1 << 20):
        assert time.monotonic() < deadline, "it never became small"
        time.sleep(0.02)
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE) == 0
    assert exit_record(tmp_path).exit_code == 0
    content = log.read_bytes()
    assert content.startswith(b"first\nxxx")
    assert content.endswith(b"x\nlast\n")
    assert len(content.rstrip(b"\0")) == log.stat().st_size
    assert b"\0" not in content[:4096] + content[-65536:]


def taken(path: Path) -> int:
    """Bytes on disk."""
    return path.stat().st_blocks * 512


def test_the_introduction_names_the_process(tmp_path: Path) -> None:
    """Boot id, pid and start time tell the process from a later one of its pid."""
    process = start(tmp_path, "sleep", "30")
    shimmed = Shimmed.from_json(json.loads(await_file(tmp_path / "shimmed.json")))
    assert shimmed is not None
    assert shimmed.shim_pid == process.pid
    assert psutil.Process(shimmed.pid).ppid() == process.pid
    os.kill(shimmed.pid, signal.SIGKILL)
    assert process.wait(PATIENCE) == 0
    assert exit_record(tmp_path).signal == signal.SIGKILL


def test_sigterm_is_passed_on(tmp_path: Path) -> None:
    """Training is asked, not killed, and the record says that it was asked."""
    script = (
        f"trap 'exit 75' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    )
    process = start(tmp_path, "sh", "-c", f"{script}")
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    record = exit_record(tmp_path)
    assert (record.exit_code, record.asked_to_stop) == (75, True)


@pytest.mark.parametrize(
    ("sent", "got"),
    [(signal.SIGUSR1, signal.SIGKILL), (signal.SIGUSR2, signal.SIGUSR1)],
)
def test_what_only_systemd_may_send(
    tmp_path: Path, sent: signal.Signals, got: signal.Signals
) -> None:
    """A daemon that may not signal training itself says what it wants to the shim."""
    process = start(tmp_path, "sleep", "60")
    await_file(tmp_path / "shimmed.json")
    process.send_signal(sent)
    assert process.wait(PATIENCE) == 0
    assert exit_record(tmp_path).signal == got


def test_what_training_leaves_behind_is_ended(tmp_path: Path) -> None:
    """Workers in sessions of their own, deaf to SIGTERM or stopped, do not survive."""
    script = """
        setsid sh -c 'trap "" TERM; echo $$ > deaf; while :; do sleep 1; done' &
        setsid sh -c 'echo $$ > stopped; kill -STOP $$' &
        while [ ! -s deaf ] || [ ! -s stopped ]; do sleep 0.02; done
    """
    process = subprocess.Popen(
        [*SHIM, str(tmp_path), "--", "sh", "-c", script], cwd=tmp_path
    )
    assert process.wait(PATIENCE) == 0
    record = exit_record(tmp_path)
    assert record.swept >= 2
    assert record.unkillable == ()
    for name in ("deaf", "stopped"):
        assert not alive(int((tmp_path / name).read_text()))


def test_training_dies_with_its_shim(tmp_path: Path) -> None:
    """A shim that is killed leaves no training without a parent."""
    process = start(tmp_path, "sleep", "60")
    pid = json.loads(await_file(tmp_path / "shimmed.json"))["pid"]
    process.kill()
    process.wait(PATIENCE)
    await_death(pid)
    assert not (tmp_path / "exit.json").exists()


def test_no_wait_of_the_shim_lasts(tmp_path: Path) -> None:
    """A signal that comes right as it begins to wait would be heard as training ends."""
    process = start(tmp_path, "sleep", "60")
    await_file(tmp_path / "shimmed.json")

    def waits() -> int:
        text = Path(f"/proc/{process.pid}/status").read_text()
        return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    time.sleep(0.5)  # what it does at its start is over
    before, deadline = waits(), time.monotonic() + PATIENCE
    while waits() == before:
        assert time.monotonic() < deadline, "it waits for ever"
        time.sleep(0.05)
    process.terminate()
    process.wait(PATIENCE)


def test_a_dead_supervisor_drains_training(tmp_path: Path) -> None:
    """When the shim's parent is killed, training gets SIGTERM and its end is recorded."""
    training = "import signal,sys,time; signal.signal(15, lambda *_: sys.exit(75)); print('up', flush=True); time.sleep(60)"
    parent = f"""
import subprocess, sys, time
subprocess.Popen({[*SHIM, str(tmp_path), "--", sys.executable, "-c", training]!r})
time.sleep(60)
"""
    supervisor = subprocess.Popen([sys.executable, "-c", parent])
    await_file(tmp_path / "output.log")
    supervisor.kill()
    supervisor.wait(PATIENCE)
    await_file(tmp_path / "exit.json")
    record = exit_record(tmp_path)
    assert (record.exit_code, record.asked_to_stop) == (75, True)


def test_a_full_disk_does_not_cost_the_record(tmp_path: Path) -> None:
    """Training fills the disk to the last byte and leaves with 3: that is known."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid() != 0:
        pytest.skip("mounting needs root")
    command = [mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    fill = (
        "import os, sys\n"
        "file = os.open('full', os.O_WRONLY | os.O_CREAT)\n"
        "try:\n"
        "    while os.write(file, bytes(4096)):\n"
        "        pass\n"
        "except OSError:\n"
        "    sys.exit(3)\n"
    )
    try:
        script = f"import os; os.chdir({str(tmp_path)!r})\n{fill}"
        assert run(tmp_path, sys.executable, "-c", script).exit_code == 3
    finally:
        subprocess.run([unmount, "-l", str(tmp_path)], check=True)


def test_usage(tmp_path: Path) -> None:
    """Without a command the shim says how it is called."""
    process = subprocess.run([*SHIM, str(tmp_path)], capture_output=True, check=False)
    assert process.returncode == 1
    assert b"usage" in process.stderr


def test_the_shim_is_small(tmp_path: Path) -> None:
    """One lives beside every training: at most 12 MiB of proportional memory."""
    process = start(tmp_path, "sleep", "60")
    pid = json.loads(await_file(tmp_path / "shimmed.json"))["pid"]
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    pss = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
    os.kill(pid, signal.SIGKILL)
    process.wait(PATIENCE)
    assert int(pss.split()[1]) <= 12 * 1024
