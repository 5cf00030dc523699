"""A real systemd, installed as deploy/README.md says: users, restarts, kills, shutdown.

Training is a small script that writes every step down once; a step lost or done twice
would show.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import OPT, Machine, boot, machine_in

RESTARTS = int(os.environ.get("TRAINWARDEN_RESTARTS", "6"))
"""How often the daemon is ended while training goes on; 50 in `make systemd`."""
COUNTS = """
import os, pathlib, sys, time
path = pathlib.Path(sys.argv[1] + ".steps")
last = int(sys.argv[2])
done = len(path.read_text().split()) if path.exists() else 0
with path.open("a") as file:
    while done < last:
        file.write(f"{done}\\n"); file.flush()
        done += 1
        print("step", done, flush=True)
        while pathlib.Path(sys.argv[1] + ".hold").exists(): time.sleep(0.02)
        time.sleep(0.02)
"""
JIT = """
import os
import tensorflow as tf
os.close(os.open("/dev/nvidia-test", os.O_RDWR))
double = tf.function(lambda x: x * 2 + 1, jit_compile=True)
print("jit", float(double(tf.constant(3.0))), flush=True)
"""
CHECK = OPT / "src/tests/contracts/test_launchers.py"


def submit(box: Machine, name: str, *, user: str = "alice", steps: int = 10**6) -> None:
    """Hand in a job that counts its steps."""
    (box.shared / f"{name}.py").write_text(COUNTS)
    place = f"/home/{user}/{name}"
    box.trainwarden("submit", f"/shared/{name}.py", place, str(steps), user=user)


def job(box: Machine, name: str) -> dict[str, Any]:
    """One job as ``status`` shows it; empty: the daemon does not answer just now."""
    said = box.trainwarden("status", "--json", check=False).stdout
    jobs: list[dict[str, Any]] = []
    with contextlib.suppress(ValueError):
        jobs = json.loads(said)
    return next((one for one in jobs if one["job"] == name), dict[str, Any]())


def running(box: Machine, name: str) -> dict[str, Any]:
    """Wait until a job trains."""
    box.until(lambda: job(box, name).get("state") == "running")
    return job(box, name)


def attempted(box: Machine, name: str, number: int) -> dict[str, Any]:
    """Wait until attempt ``number`` of a job trains."""

    def there() -> bool:
        found = job(box, name)
        return (found.get("attempt"), found.get("state")) == (number, "running")

    box.until(there)
    return job(box, name)


def steps(box: Machine, name: str, user: str = "alice") -> list[int]:
    """The steps that were done, in order."""
    path = f"/home/{user}/{name}.steps"
    return [int(word) for word in box.says("cat", path).split()]


def finish(box: Machine, name: str) -> None:
    """End a job for good."""
    box.trainwarden("stop", name)
    box.until(lambda: job(box, name).get("state") in {"drained", "finished"})


def main_pid(box: Machine) -> int:
    """The daemon's pid inside."""
    return int(box.property("trainwarden", "MainPID"))


def units(box: Machine, name: str) -> list[str]:
    """Units of a job that systemd knows."""
    said = box.says(
        "systemctl", "list-units", "--all", "--plain", "--no-legend",
        f"trainwarden-attempt-*@{name}-*",
    )  # fmt: skip
    return said.splitlines()


def await_another(box: Machine, before: int) -> None:
    """Wait until a daemon is up that is not the one before."""
    box.until(
        lambda: (
            main_pid(box) not in {0, before}
            and box.property("trainwarden", "ActiveState") == "active"
        )
    )


def check_the_service_tells_how_it_is(box: Machine) -> None:
    """It is up, watched, and says what is going on."""
    assert box.property("trainwarden", "ActiveState") == "active"
    box.until(lambda: "running" in box.property("trainwarden", "StatusText"))
    assert box.property("trainwarden", "User") == "trainwarden"


def check_each_user_runs_as_themselves(box: Machine) -> None:
    """In a unit of their own, in the slice, and nobody else's files are touched."""
    for user in ("alice", "bob"):
        submit(box, f"mine-{user}", user=user)
    for user in ("alice", "bob"):
        found = running(box, f"mine-{user}")
        unit = f"trainwarden-attempt-{user}@mine-{user}-1.service"
        assert box.property(unit, "Slice") == "trainwarden.slice"
        owner = box.says("stat", "-c", "%U", f"/proc/{found['pid']}")
        assert owner == user
    for user in ("alice", "bob"):
        finish(box, f"mine-{user}")


def check_nobody_touches_what_belongs_to_others(box: Machine) -> None:
    """Neither through the daemon nor through systemd nor through files."""
    submit(box, "private")
    running(box, "private")
    unit = "trainwarden-attempt-alice@private-1.service"
    for user, words in (
        ("bob", ["stop", "private"]),
        ("bob", ["logs", "private"]),
        ("bob", ["pause"]),
        ("bob", ["submit", "--user", "alice", "/shared/private.py"]),
        ("eve", ["status"]),
        ("eve", ["submit", "/shared/private.py"]),
    ):
        assert box.trainwarden(*words, user=user, check=False).returncode == 1
    for command in (
        ["systemctl", "--no-ask-password", "stop", unit],
        ["systemctl", "--no-ask-password", "start", unit.replace("private", "x")],
        ["cat", "/var/lib/trainwarden/requests/alice/private-1.json"],
        ["ls", "/var/lib/trainwarden/users/alice"],
    ):
        assert box.run(*command, user="bob", check=False).returncode != 0
    assert job(box, "private")["state"] == "running"
    finish(box, "private")


def check_the_daemon_may_start_nothing_else(box: Machine) -> None:
    """Neither another service, nor a command of its own, nor anybody's session."""
    for command in (
        ["systemctl", "--no-ask-password", "restart", "systemd-journald"],
        ["systemctl", "--no-ask-password", "stop", "dbus.service"],
        ["systemctl", "--no-ask-password", "start", "trainwarden-attempt-root@x-1"],
        ["systemctl", "--no-ask-password", "daemon-reload"],
        ["systemd-run", "--no-ask-password", "--uid=0", "true"],
        ["systemd-run", "--no-ask-password", "true"],
    ):
        done = box.run(*command, user="trainwarden", check=False)
        assert done.returncode != 0, command


def check_the_launcher_keeps_the_contract(box: Machine) -> None:
    """The tests that the direct launcher passes, with units of a user."""
    # In a unit itself: within units a container's /proc shows its host's boot id.
    done = box.run(
        "systemd-run", "--wait", "--pipe", "--quiet", "-p", "ProtectKernelTunables=yes",
        "-E", "TRAINWARDEN_SYSTEMD_USER=alice", "-E", "PYTHONDONTWRITEBYTECODE=1",
        f"{OPT}/bin/python", "-m", "pytest", "-q", "-k", "systemd", "-p",
        "no:cacheprovider", "-c", f"{OPT}/src/pyproject.toml", str(CHECK), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout


def check_training_does_not_notice_the_daemon(box: Machine) -> None:
    """Restarted, killed, or stopped by its watchdog: the same process trains on, no
    step is lost, and there is no incident."""
    watchdog = "/etc/systemd/system/trainwarden.service.d/watchdog.conf"
    box.run("sh", "-c", f"printf '[Service]\\nWatchdogSec=3\\n' > {watchdog}")
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "restart", "trainwarden")
    submit(box, "steady")
    before = running(box, "steady")
    for number in range(RESTARTS):
        daemon = main_pid(box)
        match number % 3:
            case 0:
                box.run("systemctl", "restart", "trainwarden")
            case 1:
                box.run("kill", "-KILL", str(daemon))
            case _:
                box.run("kill", "-STOP", str(daemon))
        await_another(box, daemon)
        time.sleep(0.1 * (number % 4))
    after = running(box, "steady")
    assert (after["pid"], after["attempt"]) == (before["pid"], 1)
    assert box.trainwarden("incidents", "steady").stdout == "no incidents\n"
    finish(box, "steady")
    done = steps(box, "steady")
    assert done == list(range(len(done)))
    journal = box.says("journalctl", "--no-pager", "-u", "trainwarden.service")
    assert not re.search(r"left-over|Found left|remains running", journal)


def check_kills_are_diagnosed_and_leave_nothing(box: Machine) -> None:
    """The shim, training, both at once, and either with the daemon."""
    submit(box, "hurt")
    for number, victims in enumerate(
        (["pid"], ["shim"], ["pid", "shim"], ["pid", "daemon"], ["shim", "daemon"]), 1
    ):
        found = attempted(box, "hurt", number)
        stat = box.says("cat", f"/proc/{found['pid']}/stat").rpartition(")")[2].split()
        pids = {"pid": found["pid"], "shim": int(stat[1]), "daemon": main_pid(box)}
        box.run("kill", "-KILL", *(str(pids[name]) for name in victims))
    attempted(box, "hurt", 6)
    incidents = json.loads(box.trainwarden("incidents", "--json", "hurt").stdout)
    assert [incident["attempt"] for incident in incidents] == [1, 2, 3, 4, 5]
    assert {incident["remedy"]["kind"] for incident in incidents} == {"restart"}
    finish(box, "hurt")
    done = steps(box, "hurt")
    assert done == list(range(len(done)))
    box.until(lambda: not units(box, "hurt"))
    assert box.run("pgrep", "-f", "/shared/hurt.py", check=False).stdout == ""


def check_draining_a_job_and_the_slice(box: Machine) -> None:
    """Each attempt saves its state and ends with 75; nothing starts by itself."""
    for name in ("one", "two"):
        submit(box, name)
    for name in ("one", "two"):
        running(box, name)
    box.trainwarden("drain", "one", user="alice")
    box.until(lambda: job(box, "one").get("state") == "drained")
    box.run("systemctl", "stop", "trainwarden.slice")
    box.until(lambda: job(box, "two").get("state") == "drained")
    assert box.property("trainwarden", "ActiveState") == "active"
    assert box.trainwarden("incidents", "two").stdout == "no incidents\n"
    box.trainwarden("start", "two", user="alice")
    running(box, "two")
    finish(box, "two")
    done = steps(box, "two")
    assert done == list(range(len(done)))


def check_compilers_and_devices_work(box: Machine) -> None:
    """What hardening could take away: XLA compiles and runs, device nodes open."""
    box.run("mknod", "--mode=0666", "/dev/nvidia-test", "c", "1", "3")
    (box.shared / "jit.py").write_text(JIT)
    box.trainwarden("submit", "/shared/jit.py", user="alice")
    box.until(lambda: job(box, "jit").get("state") in {"finished", "gave_up"})
    said = box.trainwarden("logs", "jit", user="alice").stdout
    assert "jit 7.0" in said, said[-2000:]


def check_exposure_and_verify(box: Machine) -> None:
    """systemd's own rating of what each unit could do, and no complaint about any."""
    ours, aside = "/etc/systemd/system/trainwarden.service.d", "/run/aside"
    box.run("mv", ours, aside)  # what only the tests need
    box.run("systemctl", "daemon-reload")
    try:
        _rated(box)
    finally:
        box.run("mv", aside, ours)
        box.run("systemctl", "daemon-reload")


def _rated(box: Machine) -> None:
    for unit, most in (
        ("trainwarden.service", 15),
        ("trainwarden-attempt-alice@x-1.service", 25),
    ):
        told = box.run(
            "systemd-analyze", "security", "--no-pager", f"--threshold={most}", unit,
            check=False,
        )  # fmt: skip
        assert told.returncode == 0, told.stdout[-400:]
    for unit in ("trainwarden.service", "trainwarden.slice"):
        told = box.run("systemd-analyze", "verify", "--man=no", unit)
        assert told.stdout + told.stderr == ""


def check_a_shutdown_drains_and_the_next_boot_resumes(box: Machine) -> None:
    """Nobody has to do anything: the job goes on where it was, and ends."""
    submit(box, "night", steps=400)
    running(box, "night")
    exit_file = (
        "/var/lib/trainwarden/users/alice/jobs/night/run-1/attempts/0001/exit.json"
    )
    box.power_off()
    record = json.loads((box.root / exit_file.lstrip("/")).read_text())
    assert (record["exit_code"], record["asked_to_stop"]) == (75, True)
    again = boot(box.root, box.shared)
    box.process, box.leader = again.process, again.leader
    box.until(lambda: job(box, "night").get("state") == "finished")
    assert job(box, "night")["attempt"] == 2
    assert steps(box, "night") == list(range(400))
    assert box.trainwarden("incidents", "night").stdout == "no incidents\n"


CHECKS: tuple[Callable[[Machine], None], ...] = (
    check_the_service_tells_how_it_is,
    check_each_user_runs_as_themselves,
    check_nobody_touches_what_belongs_to_others,
    check_the_daemon_may_start_nothing_else,
    check_the_launcher_keeps_the_contract,
    check_training_does_not_notice_the_daemon,
    check_kills_are_diagnosed_and_leave_nothing,
    check_draining_a_job_and_the_slice,
    check_compilers_and_devices_work,
    check_exposure_and_verify,
    check_a_shutdown_drains_and_the_next_boot_resumes,
)
"""In this order: the last one boots the machine anew."""


def install(box: Machine) -> None:
    """As deploy/README.md says, with two users; and there is a stranger."""
    box.run(f"{OPT}/src/deploy/install.sh", "--units-only")
    for user in ("alice", "bob", "eve"):
        box.run("useradd", "--create-home", user)
    for user in ("alice", "bob"):
        box.trainwarden("enable-user", user)
    box.run("systemctl", "enable", "--now", "trainwarden")


def test_a_box_with_systemd(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Everything that ``CHECKS`` says holds on one machine, which is booted once."""
    with machine_in(tmp_path) as box:
        install(box)
        for check in CHECKS:
            with subtests.test(check.__name__):
                check(box)
