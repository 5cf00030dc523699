"""A real systemd, installed as deploy/README.md says: users, restarts, kills, shutdown.

The checks are in the ``box_*`` modules beside this one, by what they are about.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operations.box_commands import check_no_command_needs_a_directory
from tests.operations.box_gpus import (
    check_a_box_without_gpus_is_quiet,
    check_a_wedged_driver,
    check_an_attempt_gets_the_word_of_its_gpu,
    check_device_nodes_are_reachable,
    check_gpus_are_seen,
    check_it_stops_with_the_daemon,
    check_metrics_come_back,
)
from tests.operations.box_kills import (
    check_kills_are_diagnosed_and_leave_nothing,
    check_kills_with_the_probe,
    check_training_does_not_notice_the_daemon,
)
from tests.operations.box_people import (
    check_a_forged_file_harms_nobody,
    check_a_linked_attempt_shows_nothing_of_others,
    check_a_page_is_its_users_own,
    check_an_upgrade_renews_the_templates,
    check_each_user_runs_as_themselves,
    check_jobs_leave_room_for_the_daemon,
    check_nobody_touches_what_belongs_to_others,
    check_one_user_leaves_room_for_another,
    check_others_see_no_quotes,
    check_the_daemon_may_start_nothing_else,
    check_whoever_runs_as_the_daemon_is_not_the_daemon,
)
from tests.operations.box_power import check_a_shutdown_drains_and_the_next_boot_resumes
from tests.operations.box_standby import check_the_next_attempt_waits_as_a_unit
from tests.support.machine import OPT, BootedContainer, machine_in
from tests.support.machine_jobs import finish, job, running, steps, submit
from tests.support.samples import sampled

JIT = """
import os
import tensorflow as tf
os.close(os.open("/dev/nvidia-test", os.O_RDWR))
double = tf.function(lambda x: x * 2 + 1, jit_compile=True)
print("jit", float(double(tf.constant(3.0))), flush=True)
"""
CHECK = OPT / "src/tests/conformance/test_launchers.py"


def check_the_service_tells_how_it_is(box: BootedContainer) -> None:
    """It is up, watched, and says what is going on."""
    assert box.property("trainwarden", "ActiveState") == "active"
    box.until(lambda: "running" in box.property("trainwarden", "StatusText"))
    assert box.property("trainwarden", "User") == "trainwarden"


def check_the_launcher_keeps_the_contract(box: BootedContainer) -> None:
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


def check_draining_a_job_and_the_slice(box: BootedContainer) -> None:
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


def check_compilers_and_devices_work(box: BootedContainer) -> None:
    """What hardening could take away: XLA compiles and runs, device nodes open."""
    box.run("mknod", "--mode=0666", "/dev/nvidia-test", "c", "1", "3")
    (box.shared / "jit.py").write_text(JIT)
    box.trainwarden("submit", "/shared/jit.py", user="alice")
    box.until(lambda: job(box, "jit").get("state") in {"finished", "gave_up"})
    said = box.trainwarden("logs", "jit", user="alice").stdout
    assert "jit 7.0" in said, said[-2000:]


def check_exposure_and_verify(box: BootedContainer) -> None:
    """systemd's own rating of what each unit could do, and no complaint about any."""
    units, aside = Path("/etc/systemd/system"), Path("/run/aside")
    box.run("mkdir", str(aside))
    ours = [f"{unit}.service.d" for unit in ("trainwarden", "trainwarden-gpu")]
    for name in ours:
        box.run("mv", str(units / name), str(aside))  # what only the tests need
    box.run("systemctl", "daemon-reload")
    try:
        _rated(box)
    finally:
        for name in ours:
            box.run("mv", str(aside / name), str(units))
        box.run("systemctl", "daemon-reload")


def _rated(box: BootedContainer) -> None:
    for unit, most in (
        ("trainwarden.service", 14),
        ("trainwarden-gpu.service", 12),
        ("trainwarden-attempt-alice@x-1.service", 25),
    ):
        told = box.run(
            "systemd-analyze", "security", "--no-pager", f"--threshold={most}", unit,
            check=False,
        )  # fmt: skip
        assert told.returncode == 0, told.stdout[-400:]
    for unit in ("trainwarden.service", "trainwarden-gpu.service", "trainwarden.slice"):
        told = box.run("systemd-analyze", "verify", "--man=no", unit)
        assert told.stdout + told.stderr == ""
    for unit in ("trainwarden", "trainwarden-gpu"):
        page = box.property(unit, "Documentation").removeprefix("file:")
        box.run("test", "-f", page)  # what systemctl help would show


CHECKS: tuple[Callable[[BootedContainer], None], ...] = (
    check_the_service_tells_how_it_is,
    check_each_user_runs_as_themselves,
    check_nobody_touches_what_belongs_to_others,
    check_a_forged_file_harms_nobody,
    check_a_linked_attempt_shows_nothing_of_others,
    check_the_daemon_may_start_nothing_else,
    check_whoever_runs_as_the_daemon_is_not_the_daemon,
    check_others_see_no_quotes,
    check_a_page_is_its_users_own,
    check_one_user_leaves_room_for_another,
    check_jobs_leave_room_for_the_daemon,
    check_no_command_needs_a_directory,
    check_an_upgrade_renews_the_templates,
    check_the_launcher_keeps_the_contract,
    check_a_box_without_gpus_is_quiet,
    check_gpus_are_seen,
    check_device_nodes_are_reachable,
    check_metrics_come_back,
    check_an_attempt_gets_the_word_of_its_gpu,
    check_a_wedged_driver,
    check_it_stops_with_the_daemon,
    check_training_does_not_notice_the_daemon,
    check_kills_are_diagnosed_and_leave_nothing,
    check_kills_with_the_probe,
    check_draining_a_job_and_the_slice,
    check_the_next_attempt_waits_as_a_unit,
    check_compilers_and_devices_work,
    check_exposure_and_verify,
    check_a_shutdown_drains_and_the_next_boot_resumes,
)
"""In this order: the last one boots the machine anew."""
LONG = frozenset({
    check_a_shutdown_drains_and_the_next_boot_resumes,
    check_a_wedged_driver,
    check_compilers_and_devices_work,
    check_metrics_come_back,
    check_no_command_needs_a_directory,
    check_one_user_leaves_room_for_another,
    check_the_launcher_keeps_the_contract,
    check_the_next_attempt_waits_as_a_unit,
    check_training_does_not_notice_the_daemon,
})  # fmt: skip
"""Two thirds of the time, for ``make systemd``; ``make test`` does the others."""


def install(box: BootedContainer) -> None:
    """As deploy/README.md says, with two users; and there is a stranger."""
    box.run(f"{OPT}/src/deploy/install.sh", "--units-only")
    for user in ("alice", "bob", "eve"):
        box.run("useradd", "--create-home", user)
    for user in ("alice", "bob"):
        box.trainwarden("enable-user", user)
    box.run("systemctl", "enable", "--now", "trainwarden")


def chosen(which: str) -> list[Callable[[BootedContainer], None]]:
    """Every one or the short ones of ``CHECKS``; or, of both, those whose names
    ``TRAINWARDEN_CHECKS`` has a word of.
    """
    words = os.environ.get("TRAINWARDEN_CHECKS", "").split()
    if words:
        return [c for c in CHECKS if any(word in c.__name__ for word in words)]
    return [c for c in CHECKS if which == "every" or c not in LONG]


@pytest.mark.parametrize("which", sampled(("short", "every"), "short"))
def test_a_box_with_systemd(
    which: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Everything that ``CHECKS`` says holds on one machine, which is booted once."""
    with machine_in(tmp_path) as box:
        install(box)
        for check in chosen(which):
            began = time.monotonic()
            with subtests.test(check.__name__):
                check(box)
            took = time.monotonic() - began
            print(f"{check.__name__}: {took:.1f} s")  # noqa: T201  # for who makes it faster
