"""Who may do what on a box with systemd."""

import json

from tests.support.machine import OPT, BootedContainer
from tests.support.machine_jobs import finish, job, main_pid, running, submit


def check_each_user_runs_as_themselves(box: BootedContainer) -> None:
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


def check_nobody_touches_what_belongs_to_others(box: BootedContainer) -> None:
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


FORGE = """
import json, pathlib, sys
target = pathlib.Path(sys.argv[1])
pid = int(sys.argv[2])
ticks = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19])
first = int(open("/proc/1/stat").read().rpartition(")")[2].split()[19])
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
target.parent.mkdir(parents=True, exist_ok=True)
claim = {"shim_pid": pid, "shim_started_ticks": ticks, "pid": pid,
         "boot_id": f"{boot}/{first}", "started_ticks": ticks}
target.write_text(json.dumps(claim))
"""


def check_a_forged_file_harms_nobody(box: BootedContainer) -> None:
    """A job's owner writes into its files that the daemon, or PID 1, is what trains: the
    daemon signals neither, the job starts, is stopped and starts again."""
    (box.shared / "forge.py").write_text(FORGE)
    daemon = main_pid(box)
    place = "/var/lib/trainwarden/users/alice/jobs/forged/run-1/attempts"
    python = f"{OPT}/bin/python"
    for pid, number in ((1, 1), (daemon, 2)):
        forged = f"{place}/{number:04d}/shimmed.json"
        if number == 1:
            box.run(python, "/shared/forge.py", forged, str(pid), user="alice")
            submit(box, "forged")
        else:
            box.trainwarden("start", "forged", user="alice")
        found = running(box, "forged")
        assert found["pid"] not in {1, daemon}
        unit = f"trainwarden-attempt-alice@forged-{number}.service"
        group = box.property(unit, "ControlGroup")
        assert group in box.says("cat", f"/proc/{found['pid']}/cgroup")
        finish(box, "forged")
        forged = f"{place}/{number:04d}/shimmed.json"
        box.run(python, "/shared/forge.py", forged, str(daemon), user="alice")
    box.trainwarden("start", "forged", user="alice")
    running(box, "forged")
    finish(box, "forged")
    assert main_pid(box) == daemon


def check_a_linked_attempt_shows_nothing_of_others(box: BootedContainer) -> None:
    """Where an attempt's directory leads to another user's, nothing of it is quoted."""
    submit(box, "secret", user="bob", steps=1)
    box.until(lambda: job(box, "secret").get("state") == "finished")
    users = "/var/lib/trainwarden/users"
    mine = f"{users}/alice/jobs/spy/run-1/attempts"
    theirs = f"{users}/bob/jobs/secret/run-1/attempts/0001"
    (box.shared / "lose.py").write_text(LOSE.format(mine=mine, theirs=theirs))
    box.trainwarden("submit", "--name", "spy", "/shared/lose.py", user="alice")
    box.until(lambda: job(box, "spy").get("state") in {"gave_up", "waiting"})
    said = box.trainwarden("incidents", "spy", "--json").stdout
    assert "step 1" not in said
    assert "step 1" not in box.trainwarden("logs", "spy", check=False).stdout
    box.trainwarden("stop", "spy", check=False)


LOSE = """
import os, shutil
os.rename("{mine}/0001", "{mine}/aside")
os.symlink("{theirs}", "{mine}/0001")
os._exit(3)
"""


def check_others_see_no_quotes(box: BootedContainer) -> None:
    """Of an incident: its owner and root see all of it, a member its cause, and somebody
    who is no member nothing."""
    (box.shared / "fails.py").write_text("raise ValueError('the word')\n")
    box.trainwarden("submit", "/shared/fails.py", user="alice")
    box.until(lambda: job(box, "fails").get("state") == "gave_up")
    for user, sees in (("alice", True), (None, True), ("bob", False)):
        said = box.trainwarden("incidents", "fails", "--json", user=user).stdout
        assert "user_error" in said
        assert ("the word" in said) == sees, (user, said)
        told = box.trainwarden("status", "--json", user=user).stdout
        assert sees or "the word" not in told
    refused = box.trainwarden("incidents", user="eve", check=False)
    assert refused.returncode == 1
    assert "fails" not in refused.stdout


def check_one_user_leaves_room_for_another(box: BootedContainer) -> None:
    """A third job is refused, a large spec too, and a second one without GPUs waits; those
    of another user are not."""
    config = "/etc/trainwarden/trainwarden.toml"
    before = box.says("cat", config)
    jobs = json.loads(box.trainwarden("status", "--json").stdout)
    most = sum(job["owner"] == "alice" for job in jobs) + 2
    limits = f"jobs = {most}\nspec_kib = 1\ncpu_jobs = 1\ncpu_slots = 8\n"
    (box.shared / "limits.toml").write_text(f"{before}\n{limits}")  # ends in [limits]
    (box.shared / "before.toml").write_text(f"{before}\n")
    try:
        box.run("cp", "/shared/limits.toml", config)
        box.run("systemctl", "restart", "trainwarden")
        submit(box, "runs")
        running(box, "runs")
        submit(box, "waits")
        submit(box, "his", user="bob")
        running(box, "his")
        assert job(box, "waits")["state"] == "queued"
        assert "alice has 1 jobs" in job(box, "waits")["message"]
        third = ("submit", "--name", "third", "/shared/runs.py")
        refused = box.trainwarden(*third, user="alice", check=False)
        assert refused.returncode
        assert f"alice has {most} jobs" in refused.stderr
        large = ("submit", "--name", "runs", "/shared/runs.py", "x" * 2000)
        refused = box.trainwarden(*large, user="alice", check=False)
        assert "larger than 1 KiB" in refused.stderr
        for name in ("waits", "runs", "his"):
            finish(box, name)
    finally:
        box.run("cp", "/shared/before.toml", config)
        box.run("systemctl", "restart", "trainwarden")


def check_jobs_leave_room_for_the_daemon(box: BootedContainer) -> None:
    """The slice has limits, and the kernel kills anybody sooner than the daemon (asked of
    its unit: a container may not lower it)."""
    for name in ("MemoryMax", "TasksMax"):
        assert int(box.property("trainwarden.slice", name)) > 0  # not "infinity"
    assert box.property("trainwarden", "OOMScoreAdjust") == "-900"


def check_whoever_runs_as_the_daemon_is_not_the_daemon(box: BootedContainer) -> None:
    """A program that got hold of its user is nobody on its socket."""
    submit(box, "guarded")
    running(box, "guarded")
    for words in (
        ["stop", "guarded"],
        ["pause"],
        ["submit", "--user", "bob", "/shared/guarded.py"],
    ):
        done = box.trainwarden(*words, user="trainwarden", check=False)
        assert done.returncode == 1
        assert "the daemon's own user" in done.stderr, done.stderr
    finish(box, "guarded")


def check_an_upgrade_renews_the_templates(box: BootedContainer) -> None:
    """Installing again makes them what they are for a user who is enabled now, and
    leaves alone what root changed beside them; jobs start after it as before it."""
    units = box.root / "etc/systemd/system"
    template = units / "trainwarden-attempt-alice@.service"
    new = template.read_text()
    template.write_text(new.replace("TimeoutStopSec=180", "TimeoutStopSec=5"))
    beside = units / f"{template.name}.d"
    beside.mkdir()
    (beside / "override.conf").write_text("[Service]\nTimeoutStopSec=300\n")
    box.run(f"{OPT}/src/deploy/install.sh", "--units-only")
    assert template.read_text() == new
    assert not list(units.glob("*@USER@*"))
    assert _submitted_with(box, grace="4min") == ""
    box.until(lambda: job(box, "patient").get("state") == "finished")
    refused = _submitted_with(box, grace="6min")
    assert "drain.grace is 6 min 00 s" in refused
    assert f"after 5 min 00 s (TimeoutStopSec of {template.name})" in refused


def _submitted_with(box: BootedContainer, *, grace: str) -> str:
    """What is said of a job with such a grace; empty: it was taken."""
    (box.shared / "patient.py").write_text("")
    spec = f'script = "/shared/patient.py"\n[drain]\ngrace = "{grace}"\n'
    (box.shared / "patient.toml").write_text(spec)
    submit = ("submit", "--spec", "/shared/patient.toml")
    done = box.trainwarden(*submit, user="alice", check=False)
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr


def check_the_daemon_may_start_nothing_else(box: BootedContainer) -> None:
    """Neither another service, nor a command of its own, nor anybody's session."""
    for command in (
        ["systemctl", "--no-ask-password", "restart", "systemd-journald"],
        ["systemctl", "--no-ask-password", "stop", "dbus.service"],
        ["systemctl", "--no-ask-password", "start", "trainwarden-attempt-root@x-1"],
        ["systemctl", "--no-ask-password", "daemon-reload"],
        ["systemd-run", "--no-ask-password", "--uid=0", "true"],
        ["systemd-run", "--no-ask-password", "true"],
        [
            "systemd-run",
            "--no-ask-password",
            "--unit=trainwarden-attempt-zz@x-1",
            "true",
        ],
        [
            "systemd-run",
            "--no-ask-password",
            "--unit=trainwarden-attempt-alice@x-1",
            "true",
        ],
    ):
        done = box.run(*command, user="trainwarden", check=False)
        assert done.returncode != 0, command
    # Names of which there is no template are refused, not only not found: systemd 257
    # asks polkit about units that are made up, by their name.
    unknown = "trainwarden-attempt-zz@x-1"
    refused = ["systemctl", "--no-ask-password", "start", unknown]
    said = box.run(*refused, user="trainwarden", check=False).stderr
    assert "enied" in said or "authentication required" in said, said


ASK = """
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def check_a_page_is_its_users_own(box: BootedContainer) -> None:
    """A service of alice's shows her jobs in a browser, to who has the address; that is in
    a file of hers and nowhere else, and gone with the page."""
    submit(box, "paged")
    running(box, "paged")
    number = box.says("id", "-u", "alice")
    box.run("systemctl", "start", f"user@{number}.service")
    session = ["env", f"XDG_RUNTIME_DIR=/run/user/{number}", "systemctl", "--user"]
    box.run(*session, "start", "trainwarden-ui", user="alice")
    address = f"/run/user/{number}/trainwarden-ui"
    box.until(lambda: "http" in box.run("cat", address, check=False).stdout)
    url = box.says("cat", address, user="alice").split()[1]
    ask = (f"{OPT}/bin/python", "-c", ASK)
    shown = box.says(*ask, url, user="alice")
    assert shown.startswith("200 ")
    assert "paged" in shown
    assert box.run("cat", address, user="bob", check=False).returncode != 0
    host, secret = url.rstrip("/").rsplit("/", 1)
    for guess in (host, f"{host}/", f"{host}/{'x' * len(secret)}/"):
        assert box.says(*ask, guess, user="bob").startswith("403 ")
    assert secret not in box.says("journalctl", "--no-pager")
    assert secret not in box.says("ps", "-eo", "args")
    box.run(*session, "stop", "trainwarden-ui", user="alice")
    assert box.run("test", "-e", address, check=False).returncode != 0
    finish(box, "paged")
