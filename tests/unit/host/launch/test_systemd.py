"""What the systemd launcher makes of what systemd answers: a command stands in for it.

With a real systemd the same is asked in ``tests/operations``.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest

from supervisor.core.diagnosis.systemd_result import UnitEnd
from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.launcher import LaunchError, Name
from supervisor.host.launch.systemd import SystemdAttempt, SystemdLauncher
from supervisor.host.process.proc_files import read_kernel, stat
from supervisor.wire.files import write_json
from supervisor.wire.paths import AttemptPaths
from tests.unit.host.launch.conftest import Answers

NAME = Name(run_id="r", job="digits", number=3)


@pytest.fixture
def launcher(tmp_path: Path) -> SystemdLauncher:
    """Of a user."""
    return SystemdLauncher(user="alice", requests=tmp_path)


def patient(grace: str) -> Spec:
    """A spec that asks for this grace."""
    return build_spec({"script": "/train.py", "drain": {"grace": grace}})


def test_a_grace_that_does_not_fit(launcher: SystemdLauncher, answers: Answers) -> None:
    """Systemd would end training in the middle of its snapshot: that is told before."""
    answers(LoadState="loaded", TimeoutStopUSec="3min")
    assert launcher.objection(patient("3min")) is None
    objection = launcher.objection(patient("4min"))
    assert objection is not None
    assert "drain.grace is 4 min 00 s" in objection
    assert "after 3 min 00 s" in objection
    assert "systemctl edit trainwarden-attempt-alice@.service" in objection
    answers(LoadState="loaded", TimeoutStopUSec="infinity")
    assert launcher.objection(patient("4min")) is None


def test_what_systemd_does_not_say_is_not_refused(
    launcher: SystemdLauncher, answers: Answers
) -> None:
    """Another unit's time-out, or none that can be understood, is no reason."""
    answers(LoadState="not-found", TimeoutStopUSec="1min 30s")
    assert launcher.objection(patient("4min")) is None
    answers(LoadState="loaded")
    assert launcher.objection(patient("4min")) is None


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    """An attempt whose shim is gone, and has written no record."""
    with subprocess.Popen(["/bin/true"]) as shim:
        shim.wait()
    introduction = {
        "shim_pid": shim.pid, "shim_started_ticks": 1, "pid": shim.pid,
        "boot_id": "this", "started_ticks": 1,
    }  # fmt: skip
    (tmp_path / "attempt").mkdir()
    write_json(tmp_path / "attempt" / "shimmed.json", introduction)
    return AttemptPaths(tmp_path / "attempt")


def test_systemd_is_awaited_where_the_shim_said_nothing(
    launcher: SystemdLauncher,
    answers: Answers,
    attempt: AttemptPaths,
) -> None:
    """It is told of the end a moment after we see it; nobody spins until then."""
    pid = pid_in(attempt)
    answers(ActiveState="active", ExecMainPID=pid, ExecMainCode=0, ExecMainStatus=0)
    found = launcher.adopt(NAME, paths=attempt)
    assert found is not None
    assert not found.ended()
    assert found.descriptor is None
    answers(Result="oom-kill", ExecMainPID=pid, ExecMainCode=2, ExecMainStatus=9)
    deadline = time.monotonic() + 5.0  # less than it would wait in vain
    while not found.ended():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    told = launcher.told(NAME, paths=attempt)
    assert told == UnitEnd(result="oom-kill", signal=9)


@pytest.mark.parametrize(
    ("active", "job", "there"),
    [
        ("inactive", 7, True),
        ("inactive", 0, False),
        ("failed", 0, False),
        ("activating", 7, True),
    ],
)
def test_what_waits_to_begin_is_taken_over(
    launcher: SystemdLauncher,
    answers: Answers,
    tmp_path: Path,
    active: str,
    *,
    job: int,
    there: bool,
) -> None:
    """The daemon before asked for it and was killed at once: to take it for an attempt
    that is over would let another begin beside it."""
    answers(ActiveState=active, Job=job)
    found = launcher.adopt(NAME, paths=AttemptPaths(tmp_path / "attempt"))
    assert (found is not None) is there


def test_what_a_user_writes_is_believed_as_far_as_systemd_says_the_same(
    answers: Answers, tmp_path: Path
) -> None:
    """A shim that is not the unit's main process, or training outside of its cgroup, is
    somebody else: the daemon itself, or PID 1. Where the unit rests it has ended."""
    group = read_kernel("/proc/self/cgroup").splitlines()[-1].split(":", 2)[-1]
    ours = stat(os.getpid())
    assert ours is not None
    paths = AttemptPaths(tmp_path)
    claim = {
        "shim_pid": os.getpid(), "shim_started_ticks": ours.started_ticks,
        "pid": os.getpid(), "boot_id": boot_id(), "started_ticks": ours.started_ticks,
    }  # fmt: skip
    write_json(tmp_path / "shimmed.json", claim)
    for unit, believed in (
        ({"MainPID": 4194300, "ControlGroup": group}, False),
        ({"MainPID": os.getpid(), "ControlGroup": "/elsewhere.service"}, False),
        ({"MainPID": os.getpid(), "ControlGroup": ""}, False),
        ({"MainPID": os.getpid(), "ControlGroup": group}, True),
    ):
        answers(ActiveState="active", **unit)
        attempt = SystemdAttempt(unit="x.service", paths=paths)
        assert attempt.started() is believed
        attempt.close()
    answers(ActiveState="inactive", MainPID=0, ExecMainPID=4194300, ControlGroup="")
    with pytest.raises(LaunchError):
        SystemdAttempt(unit="x.service", paths=paths).started()


def test_where_the_shim_has_spoken_systemd_is_not_asked(
    launcher: SystemdLauncher, answers: Answers, attempt: AttemptPaths
) -> None:
    """The record is written at the very end, and says more."""
    pid = pid_in(attempt)
    answers(Result="signal", ExecMainPID=pid, ExecMainCode=2, ExecMainStatus=9)
    assert launcher.told(NAME, paths=attempt) is not None
    write_json(attempt.exit, {"pid": pid})
    assert launcher.told(NAME, paths=attempt) is None


def pid_in(attempt: AttemptPaths) -> int:
    """The shim's."""
    text = (attempt.root / "shimmed.json").read_text()
    return int(text.partition('"shim_pid":')[2].partition(",")[0])


def test_a_unit_that_never_tells_anything_is_killed(
    launcher: SystemdLauncher, answers: Answers, tmp_path: Path
) -> None:
    """Its import hangs, say: the run could neither go on nor be stopped. Why there is no
    attempt is told when nothing is left of it."""
    del launcher
    answers(ActiveState="active", Job=0, MainPID=1, ExecMainPID=1)
    attempt = SystemdAttempt(unit="x.service", paths=AttemptPaths(tmp_path / "a"))
    assert not attempt.started()
    asked = (tmp_path / "asked").read_text()
    assert "kill" not in asked
    attempt.kill_at = attempt.look_at = time.monotonic()
    assert not attempt.started()
    assert "kill --kill-whom=main --signal=SIGKILL -- x.service" in (
        tmp_path / "asked"
    ).read_text().replace("--no-ask-password --no-pager ", "")
    answers(ActiveState="failed", Job=0, ExecMainPID=1, LoadState="loaded")
    attempt.look_at = time.monotonic()
    with pytest.raises(LaunchError, match="told nothing for 120 s, and was killed"):
        attempt.started()
