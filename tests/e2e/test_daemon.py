"""The daemon without systemd: real daemons, real attempts, real signals."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.lifecycle.effects import Quarantine
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths
from tests.support.boxes import PATIENCE, BoxUnderTest, alive, box_in, until
from tests.support.small_disk import fill as filling
from tests.support.small_disk import mounted

WAITS = """
import pathlib, time
print("up", flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.05)
print("done", flush=True)
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxUnderTest]:
    """A box."""
    with box_in(tmp_path) as made:
        yield made


def test_a_submitted_job_runs_to_its_end(box: BoxUnderTest) -> None:
    """Its status, its log and its exit are told; who submitted it is written down."""
    box.begin()
    script = box.script("import sys; print('args', sys.argv[1:])")
    submitted = box.json("submit", script, "--name", "its own")
    assert (submitted["job"], submitted["state"]) == ("train", "queued")
    job = box.until(lambda job: job["state"] == "finished")
    assert (job["attempt"], job["wanted"]) == (1, "run")
    assert box.do("logs", "train") == "args ['--name', 'its own']\n"
    assert box.json("incidents") == []


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_training_goes_on_without_its_daemon(box: BoxUnderTest, number: int) -> None:
    """However the daemon ends: the next one finds the same process, and sees its end."""
    daemon = box.begin()
    box.do("submit", box.script(WAITS))
    before = box.until(lambda job: job["pid"])
    box.end(daemon, number)
    assert alive(before["pid"])
    (said,) = box.json("status")  # by the files alone
    assert (said["pid"], said["state"]) == (before["pid"], "interrupted")
    box.begin()
    after = box.until(lambda job: job["state"] == "running")
    assert (after["pid"], after["attempt"]) == (before["pid"], 1)
    (box.directory / "go").touch()
    box.until(lambda job: job["state"] == "finished")
    assert box.json("incidents") == []
    assert box.do("logs", "train") == "up\ndone\n"


@pytest.mark.slow
def test_an_end_that_no_daemon_saw(box: BoxUnderTest) -> None:
    """What the shim wrote is read by the next daemon: a clean end is one."""
    daemon = box.begin()
    box.do("submit", box.script(WAITS))
    pid = box.until(lambda job: job["pid"])["pid"]
    box.end(daemon, signal.SIGKILL)
    (box.directory / "go").touch()
    until(lambda: not alive(pid))
    box.begin()
    assert box.until(lambda job: job["state"] == "finished")["attempt"] == 1
    assert box.json("incidents") == []


def test_a_crash_that_no_daemon_saw(box: BoxUnderTest) -> None:
    """It is one incident, and the job goes on."""
    daemon = box.begin()
    box.do("submit", box.script(WAITS))
    pid = box.until(lambda job: job["pid"])["pid"]
    box.end(daemon, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    box.begin()
    box.until(lambda job: job["attempt"] == 2 and job["pid"])
    (incident,) = box.json("incidents")
    assert incident["attempt"] == 1
    (box.directory / "go").touch()
    box.until(lambda job: job["state"] == "finished")
    assert len(box.json("incidents")) == 1


def test_shim_and_daemon_killed_at_once(box: BoxUnderTest) -> None:
    """Nobody recorded the end: it was ended from outside, and the job goes on."""
    daemon = box.begin()
    box.do("submit", box.script(WAITS))
    pid = box.until(lambda job: job["pid"])["pid"]
    shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(shim, signal.SIGKILL)
    box.end(daemon, signal.SIGKILL)
    box.begin()
    box.until(lambda job: job["attempt"] == 2 and job["pid"])
    (incident,) = box.json("incidents")
    assert incident["cause"] == "preempted"
    assert "gone without a word" in incident["because"][0]["text"]


def test_stop_drain_and_start(box: BoxUnderTest) -> None:
    """A job that was stopped stays so, also for the next daemon; start resumes it."""
    daemon = box.begin()
    box.do("submit", box.script(WAITS))
    box.until(lambda job: job["pid"])
    assert "train: draining: " in box.do("drain", "train")
    box.until(lambda job: job["state"] == "drained")
    assert "resumes it" in box.end(daemon)
    box.begin()
    assert box.job()["state"] == "drained"
    box.do("start", "train")
    box.until(lambda job: job["pid"])
    (box.directory / "go").touch()
    assert box.until(lambda job: job["state"] == "finished")["attempt"] == 2
    assert box.json("incidents") == []


@pytest.mark.slow
def test_what_has_finished_is_not_trained_anew_unasked(box: BoxUnderTest) -> None:
    """Its snapshots would go: whoever wants that says so."""
    box.begin()
    (box.directory / "go").touch()
    box.do("submit", box.script(WAITS))
    box.until(lambda job: job["state"] == "finished")
    for verb in ("start", "restart"):
        refused = box.command(verb, "train")
        assert refused.returncode != 0
        assert "train has finished; `trainwarden start --state-dir " in refused.stderr
    assert box.job()["state"] == "finished"
    box.do("start", "--fresh", "train")
    box.until(lambda job: job["state"] == "finished")


@pytest.mark.slow
def test_a_job_without_its_daemon_trains_on(box: BoxUnderTest) -> None:
    """That is said, and nobody else takes it up or waits for it."""
    daemon = box.begin()
    script = box.script(WAITS)
    box.do("submit", script)
    pid = box.until(lambda job: job["pid"])["pid"]
    box.end(daemon, signal.SIGKILL)
    (status,) = box.json("status")
    assert (status["state"], status["pid"]) == ("interrupted", pid)
    assert f"training goes on in process {pid}" in status["message"]
    assert "start the daemon" in status["message"]
    refused = box.command("run", script)
    assert refused.returncode == 2
    assert "train still trains (process " in refused.stderr
    box.begin()
    (box.directory / "go").touch()
    assert box.until(lambda job: job["state"] == "finished")["attempt"] == 1


def test_a_restart_goes_on_under_the_next_daemon(box: BoxUnderTest) -> None:
    """One that was asked for while a daemon ends is not forgotten, and happens once."""
    daemon = box.begin()
    box.do("submit", box.script(WAITS))
    pid = box.until(lambda job: job["pid"])["pid"]
    until(lambda: b"up" in box.client.read("/v1/jobs/train/logs")[0])
    os.kill(pid, signal.SIGSTOP)  # it takes its time
    box.do("restart", "train")
    box.until(lambda job: job["state"] == "draining")
    box.end(daemon)
    daemon = box.begin()
    box.until(lambda job: job["state"] == "draining")
    box.end(daemon, signal.SIGKILL)
    box.begin()
    box.until(lambda job: job["state"] == "draining")
    os.kill(pid, signal.SIGCONT)
    box.until(lambda job: job["attempt"] == 2 and job["pid"])
    (box.directory / "go").touch()
    assert box.until(lambda job: job["state"] == "finished")["attempt"] == 2
    assert box.json("incidents") == []


def test_stop_does_not_wait_for_a_deaf_script(box: BoxUnderTest) -> None:
    """Without --drain a job ends at once, and nothing else is said to whoever asked."""
    daemon = box.begin()
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)\n"
    box.do("submit", box.script(deaf + WAITS))
    box.until(lambda job: job["pid"])
    until(lambda: b"up" in box.client.read("/v1/jobs/train/logs")[0])
    told = box.do("stop", "train")
    assert "train: killing: a request of " in told
    assert "ending at once, at the newest snapshot" in told
    box.until(lambda job: job["state"] == "drained")
    assert "saving a snapshot" not in box.end(daemon)


def test_job_files(box: BoxUnderTest) -> None:
    """A broken file is reported and leaves all others alone, also its own job."""
    box.jobs.mkdir(parents=True)
    script = box.script(WAITS)
    good = f'script = "{script}"\nworking_directory = "{box.directory}"\n'
    (box.jobs / "good.toml").write_text(good)
    (box.jobs / "bad.toml").write_text("script = ")
    daemon = box.begin()
    pid = box.until(lambda job: job["pid"], "good")["pid"]
    assert "bad.toml" in box.command("status").stderr
    (box.jobs / "good.toml").write_text(good + "gpus = 'all'\n")
    (box.jobs / "bad.toml").write_text(good)
    daemon.send_signal(signal.SIGHUP)
    box.until(lambda job: job["pid"], "bad")
    assert box.job("good")["pid"] == pid
    assert "good.toml: gpus" in box.command("status").stderr
    (box.directory / "go").touch()
    for name in ("good", "bad"):
        box.until(lambda job: job["state"] == "finished", name)


def test_logs_are_followed_to_the_end(box: BoxUnderTest) -> None:
    """``logs -f`` shows what comes, across attempts, and ends with the job."""
    box.begin()
    box.do("submit", box.script(
        "import os, pathlib, sys\n"
        "if not pathlib.Path('again').exists():\n"
        "    pathlib.Path('again').touch(); print('first', flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "print('second')\n"
    ))  # fmt: skip
    until(lambda: box.job()["attempt"] > 0)
    assert box.do("logs", "-f", "--attempt", "1", "train") == "first\nsecond\n"


def test_a_paused_box_starts_nothing(box: BoxUnderTest) -> None:
    """Also the next daemon does not, until somebody resumes it."""
    daemon = box.begin()
    box.do("pause")
    box.do("submit", box.script("print('ran')"))
    assert "paused by" in box.until(lambda job: "paused" in job["message"])["message"]
    box.end(daemon)
    box.begin()
    assert box.job()["state"] == "queued"
    box.do("resume")
    box.until(lambda job: job["state"] == "finished")


def test_a_quarantined_gpu_is_handed_to_nobody(box: BoxUnderTest) -> None:
    """One that failed under some run is passed over, and waited for, until a person
    returns it."""
    box.config = '[gpus]\nuse = ["GPU-a", "GPU-b"]\n'
    box.state.mkdir(mode=0o711)
    with contextlib.closing(Ledger(StatePaths(box.state).ledger)) as ledger:
        run = ledger.begin_run(
            run_id="r", job="old", script="s", script_hash="h", seed=1, spec={}, now=1.0
        )
        failed = Quarantine(gpus=("GPU-a",), attempt=1, because="Xid 79")
        ledger.quarantine(run.id, failed, now=2.0)
    box.begin()
    text = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"
    box.do("submit", "--gpu-count", "1", box.script(text, "one.py"))
    box.do("submit", "--gpu-count", "2", box.script(text, "two.py"))
    box.until(lambda job: job["state"] == "finished", "one")
    assert "wants 2 GPUs, 1 are in service" in box.job("two")["message"]
    box.do("quarantine", "--return", "GPU-a")
    box.until(lambda job: job["state"] == "finished", "two")
    assert box.do("logs", "one") == "GPU-b\n"


@pytest.mark.slow
def test_gpus_are_handed_out_one_job_each(box: BoxUnderTest) -> None:
    """Who has to wait is told why; who ends makes room."""
    box.config = '[gpus]\nuse = ["GPU-a", "GPU-b"]\n'
    box.begin()
    text = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n" + WAITS
    for name in ("one", "two"):
        script = box.script(text, f"{name}.py")
        box.do("submit", "--gpu-count", "2" if name == "one" else "1", script)
    box.until(lambda job: job["pid"], "one")
    assert box.job("one")["gpus"] == ["GPU-a", "GPU-b"]
    assert "wants 1 GPUs, 0 are free" in box.job("two")["message"]
    (box.directory / "go").touch()
    box.until(lambda job: job["state"] == "finished", "two")
    assert box.do("logs", "one").startswith("GPU-a,GPU-b\n")
    assert box.do("logs", "two").startswith("GPU-a\n")


def test_bad_requests_and_a_good_one(box: BoxUnderTest) -> None:
    """Each bad one gets a sentence, and changes nothing; a second daemon of the state
    directory is refused in one. Who asks for no GPU sees none, and is told so where there
    are any."""
    box.config = '[gpus]\nuse = ["GPU-a"]\n'
    daemon = box.begin()
    text = "import os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))\n"
    script = box.script(text)
    for arguments, sentence in (
        (["stop", "nobody"], "there is no job 'nobody'"),
        (["submit", "--name", "../x", script], "name: expected a name"),
        (["submit", "missing.py"], "there is no script missing.py"),
        (["submit", "--user", "nobody", script], "without systemd"),
        (["incidents", "--ack", "7"], "there is no incident 7"),
        (["logs", "nobody"], "there is no job"),
    ):
        done = box.command(*map(str, arguments))
        assert done.returncode in {1, 2}
        assert sentence in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert box.json("status") == []
    second = box.begin()
    said, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1
    assert "another daemon has the state directory" in said
    assert daemon.poll() is None
    done = box.command("submit", script)
    assert "it asked for no GPU and will see none" in done.stderr
    box.until(lambda job: job["state"] == "finished")
    assert box.do("logs", "train") == "''\n"


def test_without_a_daemon(box: BoxUnderTest) -> None:
    """A command that needs one says so."""
    box.state.mkdir(parents=True)
    done = box.command("stop", "train")
    assert done.returncode == 1
    assert "no daemon answers" in done.stderr


def fill(path: Path) -> None:
    """Write until the disk is full. Raises OSError then."""
    with path.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def test_a_full_disk(box: BoxUnderTest) -> None:
    """Training goes on, a crash is written down and answered in the room that ballast
    gives, and nothing is lost when there is room again."""
    box.state.mkdir()
    made = subprocess.run(
        ["/usr/bin/mount", "-t", "tmpfs", "-o", "size=96m,mode=0700", "tmpfs",
         str(box.state)],
        check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("mounting a tmpfs needs root")
    try:
        box.begin()
        box.do("submit", box.script(WAITS))
        pid = box.until(lambda job: job["pid"])["pid"]
        until((box.state / "ballast").exists)
        filler = box.state / "filler"
        with pytest.raises(OSError, match="No space"):
            fill(filler)
        os.kill(pid, signal.SIGKILL)
        box.until(lambda job: job["attempt"] == 2 and job["pid"])
        assert not (box.state / "ballast").exists()
        filler.unlink()
        (box.directory / "go").touch()
        box.until(lambda job: job["state"] == "finished")
        (incident,) = box.json("incidents")
        assert incident["attempt"] == 1
        until((box.state / "ballast").exists)
        box.end(box.daemons[-1])
    finally:
        subprocess.run(["/usr/bin/umount", "--lazy", str(box.state)], check=True)


def test_a_port_of_metrics_that_is_taken(box: BoxUnderTest) -> None:
    """Somebody else listens there when the daemon begins: jobs run all the same, and what
    is the matter is said."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        box.config = f'[metrics]\nlisten = "{address}"\n'
        daemon = box.begin()
        box.do("submit", box.script("print('done')"))
        box.until(lambda job: job["state"] == "finished")
    said = box.end(daemon)
    assert f"cannot serve metrics on {address}: Address already in use" in said
    assert "Jobs are looked after without" in said


def test_a_disk_that_is_full_when_it_begins(box: BoxUnderTest) -> None:
    """It says which, and ends: a ledger that cannot be written keeps no promise."""
    with mounted(box.state, "64k") as state:
        state.chmod(0o700)
        filling(state / "filler")
        daemon = box.begin()
        said, _ = daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 1
    assert f"the daemon cannot start: No space left on device: {box.state}" in said
