"""What is killed on a box with systemd, one at a time and two at once."""

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.operations.box_extent import RESTARTS, WHOLE
from tests.operations.box_gpus import PROBE, equipped, probe_pid, renewed
from tests.support.machine import BootedContainer
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

OFTEN = (
    '[restart]\nwithout_progress = 100\nback_off = "100ms"\nback_off_max = "100ms"\n'
)
"""A job without snapshots that is to be killed again and again."""


def check_training_does_not_notice_the_daemon(box: BootedContainer) -> None:
    """Restarted, killed, or stopped by its watchdog: the same process trains on, no
    step is lost, and there is no incident."""
    watchdog = "/etc/systemd/system/trainwarden.service.d/watchdog.conf"
    # More restarts than a box may have in five minutes before systemd gives up on it.
    changed = "[Unit]\\nStartLimitIntervalSec=0\\n[Service]\\nWatchdogSec=3\\n"
    box.run("sh", "-c", f"printf '{changed}' > {watchdog}")
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "restart", "trainwarden")
    _chatter(box)
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
    _keeps_its_log_small(box)


def _chatter(box: BootedContainer) -> None:
    """A job that prints more than it may keep, as a user whose log is not the daemon's."""
    lines = (
        "import time\nwhile True:\n    print('x' * 999, flush=True); time.sleep(0.01)\n"
    )
    (box.shared / "chatter.py").write_text(lines)
    spec = 'script = "/shared/chatter.py"\n[logs]\nhead = "4KiB"\ntail = "64KiB"\n'
    (box.shared / "chatter.toml").write_text(spec)
    box.trainwarden("submit", "--spec", "/shared/chatter.toml", user="bob")


def _keeps_its_log_small(box: BootedContainer) -> None:
    """By its shim: the middle of its log is given back, its end can be read."""
    jobs = box.root / "var/lib/trainwarden/users/bob/jobs"
    log = jobs / "chatter/run-1/attempts/0001/output.log"

    def much_is_gone() -> bool:
        found = log.stat()
        return found.st_blocks * 512 < found.st_size - 128 * 1024

    box.until(much_is_gone)
    assert "xxx" in box.trainwarden("logs", "chatter", user="bob").stdout[-100:]
    finish(box, "chatter")


def check_kills_are_diagnosed_and_leave_nothing(box: BootedContainer) -> None:
    """The shim, training, both at once, and either with the daemon."""
    fatal = [
        ["pid"], ["pid", "shim"], ["shim", "daemon"], ["shim"], ["pid", "daemon"],
    ]  # fmt: skip
    _struck(box, "hurt", fatal if WHOLE else fatal[:3])
    grave = box.says("journalctl", "-q", "-o", "cat", "-p", "4", "TRAINWARDEN_JOB=hurt")
    assert "hurt: attempt 2 failed: something other than Trainwarden ended" in grave
    assert "started, pid" not in grave


def check_kills_with_the_probe(box: BootedContainer) -> None:
    """Training or its shim together with the process that asks the driver, or with its
    keeper, is diagnosed as without them, and metrics come back."""
    equipped(box)
    fatal = [
        ["pid", "probe"], ["shim", "keeper"], ["pid", "keeper"], ["shim", "probe"],
    ]  # fmt: skip
    _struck(box, "struck", fatal if WHOLE else fatal[:2], then=lambda: renewed(box))


def _struck(
    box: BootedContainer,
    name: str,
    fatal: Sequence[list[str]],
    *,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Each of ``fatal`` ends an attempt of the job, once; ``then``: after each."""
    submit(box, name, spec=OFTEN)
    for number, victims in enumerate(fatal, 1):
        strike(box, attempted(box, name, number), victims)
        then()
    attempted(box, name, len(fatal) + 1)
    incidents = json.loads(box.trainwarden("incidents", "--json", name).stdout)
    numbers = [incident["attempt"] for incident in incidents]
    assert numbers == list(range(1, len(fatal) + 1))
    for incident, victims in zip(incidents, fatal, strict=True):
        assert incident["remedy"]["kind"] == "restart"
        # Where training alone was killed, the shim says so; else the unit's result does.
        assert incident["cause"] == "preempted", (victims, incident["because"])
        said = " ".join(reason["text"] for reason in incident["because"])
        assert "SIGKILL" in said
        told = "systemd says" in said
        assert told or "shim" not in victims or "pid" in victims, said
        assert not told or "shim" in victims, said
    finish(box, name)
    done = steps(box, name)
    assert done == list(range(len(done)))
    box.until(lambda: not units(box, name))
    assert box.run("pgrep", "-f", f"/shared/{name}.py", check=False).stdout == ""


def strike(box: BootedContainer, found: dict[str, Any], victims: list[str]) -> None:
    """SIGKILL to all of them at once."""
    stat = box.says("cat", f"/proc/{found['pid']}/stat").rpartition(")")[2].split()
    pids = {"pid": found["pid"], "shim": int(stat[1]), "daemon": main_pid(box)}
    if {"keeper", "probe"}.intersection(victims):
        pids["keeper"] = int(box.property(PROBE, "MainPID"))
        pids["probe"] = probe_pid(box)
    box.kill(*(pids[name] for name in victims))
