"""What is killed on a box with systemd, one at a time and two at once."""

import json
import os
import re
import time

from tests.support.machine import Machine
from tests.support.machine_jobs import (
    attempted,
    await_another,
    finish,
    main_pid,
    running,
    steps,
    submit,
    units,
)

RESTARTS = int(os.environ.get("TRAINWARDEN_RESTARTS", "6"))
"""How often the daemon is ended while training goes on; 50 in `make systemd`."""


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
