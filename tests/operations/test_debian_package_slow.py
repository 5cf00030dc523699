"""The Debian package in a fresh Debian with a real systemd: installed, upgraded under a
job that runs, removed, installed again, purged (``make deb-test``; needs root).

``TRAINWARDEN_DEB`` names a package that has been built, ``TRAINWARDEN_DEBIAN`` a root.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.debian import (
    PROGRAM,
    ROOT,
    as_later_version,
    build_package,
    debian_in,
    ended_well,
    needed_for_packages,
)
from tests.support.debian import field as field_of
from tests.support.machine import OPT, BootedContainer
from tests.support.machine_jobs import COUNTS, job, main_pid, running, steps, submit

pytestmark = pytest.mark.slow

LATER, CHANGED = "99.1", "99.2"
STATE = "/var/lib/trainwarden"
TEMPLATE = "/etc/systemd/system/trainwarden-attempt-alice@.service"
CONFIGURATION = "etc/trainwarden/trainwarden.toml"
ACCOUNTS = {
    f"/etc/{name}-"
    for name in ("group", "gshadow", "passwd", "shadow", "subuid", "subgid")
}
"""Copies of what was before, made by who changes users."""
SINGLE = "trainwarden-run@single.service"
SINGLE_SPEC = "/etc/trainwarden/single.toml"
EDITED = "# root was here\n"
LISTED = (
    "find", "/etc", "/usr", "/var/lib", "/opt", "-xdev",
    "(", "-path", "/var/lib/dpkg", "-o", "-path", "/var/lib/systemd",
    "-o", "-path", "/etc/.pwd.lock", ")", "-prune", "-o", "-print",
)  # fmt: skip


@dataclass
class Packaged:
    """A machine, the package and its next version."""

    box: BootedContainer
    package: str
    """Its path inside, as that of the next."""
    later: str
    changed: str
    """One more, with another file in /etc."""
    version: str
    fresh: set[str] = field(default_factory=set[str])
    """The files that were there before."""

    def dpkg(self, *words: str, check: bool = True) -> str:
        """Nothing is asked: dpkg's input is empty."""
        done = self.box.run("dpkg", *words, check=check)
        assert check or done.returncode != 0
        return done.stdout + done.stderr

    def added(self) -> set[str]:
        """Files that were not there before."""
        return set(self.box.says(*LISTED).splitlines()) - self.fresh


def pid_of(box: BootedContainer, name: str) -> int:
    """The process that trains, as the daemon says."""
    return int(running(box, name)["pid"])


def goes_on(box: BootedContainer, name: str, pid: int) -> None:
    """The same process makes more steps, with or without a daemon."""
    before = len(steps(box, name))
    box.until(lambda: len(steps(box, name)) > before)
    done = steps(box, name)
    assert done == list(range(len(done)))
    box.run("kill", "-0", str(pid))


def start_single(box: BootedContainer) -> str:
    """A run as a service of its own, without the daemon: the pid of its supervisor."""
    (box.shared / "single.py").write_text(COUNTS)
    spec = 'script = "/shared/single.py"\nargs = ["single", "1000000"]\n'
    (box.root / SINGLE_SPEC.lstrip("/")).write_text(spec)
    box.run("systemctl", "start", SINGLE)
    trace = f"{STATE}/single/single.steps"
    box.until(lambda: box.run("test", "-s", trace, check=False).returncode == 0)
    return box.property(SINGLE, "MainPID")


def was_drained(box: BootedContainer, state: str) -> bool:
    """Whether the only attempt below a state directory ended as it was asked to."""
    (record,) = box.says("find", state, "-name", "exit.json").splitlines()
    return bool(json.loads(box.says("cat", record))["asked_to_stop"])


def check_it_installs(one: Packaged) -> None:
    """With what it depends on and nothing else; not started; and says what is next."""
    said = one.dpkg("--install", one.package)
    assert "trainwarden enable-user NAME" in said
    assert one.dpkg("--audit") == one.dpkg("--verify", "trainwarden") == ""
    box = one.box
    enabled = box.run("systemctl", "is-enabled", "trainwarden", check=False)
    assert enabled.stdout == "disabled\n"
    assert box.property("trainwarden", "ActiveState") == "inactive"
    owner = box.says("stat", "--format=%U:%G %a", STATE)
    assert owner == "trainwarden:trainwarden-data 711"
    for name in ("trainwarden.service", "trainwarden-gpu.service"):
        assert box.says("systemd-analyze", "verify", "--man=no", name) == ""


def check_commands_work(one: Packaged) -> None:
    """For anybody, wherever; its environment is closed, compiled, and without pip."""
    box = one.box
    box.run("useradd", "--create-home", "alice")
    for user in (None, "alice"):
        said = box.says(
            "env", "PYTHONPATH=/nowhere", "trainwarden", "--version", user=user
        )
        assert said.endswith(one.version)
    done = box.trainwarden("check", "--json", user="alice", check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert len(json.loads(done.stdout)) > 3
    home = "/usr/lib/trainwarden"
    box.run(f"{home}/bin/python", "-I", "-c", "import apprise, obstore, supervisor")
    box.run(f"{home}/bin/py-spy", "--version")
    for wrong in ("pip", "setuptools", "tensorflow"):
        done = box.run(f"{home}/bin/python", "-Ic", f"import {wrong}", check=False)
        assert done.returncode == 1, wrong
    sources = box.says("find", home, "-name", "*.py", "-newer", "/shared").splitlines()
    assert sources == []  # their times are the commit's
    words = box.says("env", "COMP_WORDS=trainwarden subm", "COMP_CWORD=1",
                     "_TRAINWARDEN_COMPLETE=bash_complete", "trainwarden")  # fmt: skip
    assert "submit" in words


def check_nothing_is_left_where_nobody_had_a_job(one: Packaged) -> None:
    """Enabled, started, and purged: no file of it remains."""
    box = one.box
    box.run("systemctl", "enable", "--now", "trainwarden")
    box.until(lambda: box.property("trainwarden", "ActiveState") == "active")
    one.dpkg("--remove", "trainwarden")
    assert box.property("trainwarden", "ActiveState") == "inactive"
    assert f"/{CONFIGURATION}" in one.added()
    one.dpkg("--purge", "trainwarden")
    assert one.added() - ACCOUNTS == set()
    one.dpkg("--install", one.package)


def check_an_upgrade_under_a_job(one: Packaged) -> None:
    """The same process trains on, and the new daemon has it; nobody notices, and what
    root has edited stays."""
    box = one.box
    box.trainwarden("enable-user", "alice")
    box.run("systemctl", "start", "trainwarden")  # not enabled: it comes back as well
    submit(box, "train")
    single = start_single(box)
    pid, daemon = pid_of(box, "train"), main_pid(box)
    configuration = box.root / CONFIGURATION
    configuration.write_text(EDITED + configuration.read_text())
    template = box.root / TEMPLATE.lstrip("/")
    new = template.read_text()
    template.write_text(new.replace("TimeoutStopSec=180", "TimeoutStopSec=5"))
    one.dpkg("--install", one.later)
    assert box.says("trainwarden", "--version").endswith(LATER)
    assert main_pid(box) not in {0, daemon}
    assert pid_of(box, "train") == pid
    assert job(box, "train")["attempt"] == 1
    assert box.property(SINGLE, "MainPID") == single
    goes_on(box, "train", pid)
    assert box.trainwarden("incidents", "train").stdout == "no incidents\n"
    assert configuration.read_text().startswith(EDITED)
    assert template.read_text() == new


def check_what_was_stopped_stays_stopped(one: Packaged) -> None:
    """An upgrade starts nothing that root has stopped."""
    box = one.box
    box.run("systemctl", "stop", "trainwarden")
    one.dpkg("--install", one.later)
    assert box.property("trainwarden", "ActiveState") == "inactive"
    box.run("systemctl", "start", "trainwarden")


def check_removed_under_a_job(one: Packaged) -> None:
    """Training goes on without the daemon, which is said; installed again, it is taken
    over. What has its supervisor in a unit of its own was drained."""
    box = one.box
    pid = pid_of(box, "train")
    said = one.dpkg("--remove", "trainwarden")
    assert "1 training attempt(s) go on without the daemon" in said
    assert box.run("test", "-e", "/usr/lib/trainwarden", check=False).returncode == 1
    goes_on(box, "train", pid)
    assert box.property(SINGLE, "ActiveState") == "inactive"
    assert was_drained(box, f"{STATE}/single")
    one.dpkg("--install", one.later)
    box.run("systemctl", "enable", "--now", "trainwarden")
    assert pid_of(box, "train") == pid
    goes_on(box, "train", pid)


def check_purged_under_a_job(one: Packaged) -> None:
    """Nothing is asked; what belongs to users stays, and is named; the job ends as its
    unit says, and only that unit's template has been kept for it."""
    box = one.box
    pid = pid_of(box, "train")
    said = one.dpkg("--purge", "trainwarden")
    assert f"{TEMPLATE} stays: attempts of it still run" in said
    assert f"{STATE} stays: the ledger of runs" in said
    goes_on(box, "train", pid)
    box.run("systemctl", "stop", "trainwarden.slice")
    gone = box.run("kill", "-0", str(pid), check=False)
    assert gone.returncode == 1
    assert was_drained(box, f"{STATE}/users/alice")
    left = {path for path in one.added() if not path.startswith(f"{STATE}/")}
    assert left - ACCOUNTS == {STATE, TEMPLATE, "/etc/trainwarden", SINGLE_SPEC}
    assert f"{STATE}/ledger.sqlite" in one.added()


def check_moving_over_from_a_clone(one: Packaged) -> None:
    """Where deploy/install.sh was run, the package is refused, with what to do; who does
    just that has the same training under the package's daemon."""
    box = one.box
    source = box.shared / "source"
    source.mkdir()
    for name in ("deploy", "docs", "README.md"):
        ended_well("cp", "-r", ROOT / name, source)
    box.run("dpkg-deb", "--extract", one.package, "/shared/extracted")
    box.run("cp", "-a", "/shared/extracted/usr/lib/trainwarden", str(OPT))
    ours = f"{OPT}/bin/trainwarden"
    box.run("sed", "-i", f"1s|.*|#!{OPT}/bin/python -I|", ours)
    box.run("/shared/source/deploy/install.sh", "--units-only")
    box.run(ours, "enable-user", "alice")
    box.run("systemctl", "start", "trainwarden")
    box.program = ours
    submit(box, "moves")
    pid = pid_of(box, "moves")
    said = one.dpkg("--install", one.package, check=False)
    assert "is from deploy/install.sh" in said
    assert box.property("trainwarden", "ActiveState") == "active"
    box.program = PROGRAM
    commands = re.findall(r"^  .*", said, flags=re.MULTILINE)
    box.run("sh", "-ec", "\n".join(commands))
    one.dpkg("--install", one.package)
    assert "/usr/lib/trainwarden/" in box.says("cat", TEMPLATE)
    box.run("systemctl", "start", "trainwarden")
    assert pid_of(box, "moves") == pid
    goes_on(box, "moves", pid)
    shown = box.says("systemctl", "show", "--property=ExecStart", "trainwarden")
    assert "/usr/lib/trainwarden/bin/trainwarden daemon" in shown
    box.run("systemctl", "stop", "trainwarden.slice")
    box.until(lambda: job(box, "moves").get("state") == "drained")


def check_who_may_have_jobs(one: Packaged) -> None:
    """People: not root, not the supervisor's own users, and nobody whose name is a path;
    nothing is made for whom it refuses."""
    box = one.box
    box.run("useradd", "--create-home", "mallory")
    for name in (
        *("root", "trainwarden", "trainwarden-gpu", "trainwarden-run"),
        *("nobody-here", "../alice", "alice@1", "alice;id", ""),
    ):
        done = box.trainwarden("enable-user", name, check=False)
        assert done.returncode in {1, 2}, name
        assert done.stderr.startswith("trainwarden: "), done.stderr
    refused = box.trainwarden("enable-user", "alice", user="mallory", check=False)
    assert "only root may do that" in refused.stderr
    assert not [path for path in one.added() if "trainwarden-attempt-" in path]


def check_what_others_may(one: Packaged) -> None:
    """Nothing: neither ask nor stop, nor read what belongs to a job, nor leave a file where
    the daemon looks; and no code of theirs is run by the command."""
    box = one.box
    for words in (("status",), ("stop", "train"), ("submit", "/shared/train.py")):
        done = box.trainwarden(*words, user="mallory", check=False)
        assert "mallory is not in the group trainwarden" in done.stderr, words
    for place in (
        STATE,
        "/run/trainwarden",
        "/etc/trainwarden",
        "/usr/lib/trainwarden",
    ):
        done = box.run("touch", f"{place}/x", user="mallory", check=False)
        assert done.returncode, place
        found = box.run("find", place, "-writable", "!", "-type", "l", "!", "-type", "s",
                        user="mallory", check=False)  # fmt: skip
        assert found.stdout == "", place
    seen = box.run("find", STATE, "-readable", user="mallory", check=False)
    assert seen.stdout == ""
    unit = running_unit(box)
    for words in (("stop", unit), ("stop", "trainwarden"), ("kill", unit)):
        done = box.run(
            "systemctl", "--no-ask-password", *words, user="mallory", check=False
        )
        assert done.returncode, words
    evil = box.shared / "evil"
    evil.mkdir()
    for name in ("supervisor.py", "sitecustomize.py", "click.py"):
        (evil / name).write_text("raise SystemExit('evil')")
    said = box.says("sh", "-c", "cd /shared/evil && PYTHONPATH=. trainwarden --version")
    assert said.endswith(LATER)


def running_unit(box: BootedContainer) -> str:
    """The unit of the only attempt."""
    listed = box.says("systemctl", "list-units", "--plain", "--no-legend",
                      "trainwarden-attempt-*")  # fmt: skip
    return listed.split()[0]


def check_a_port_that_somebody_took(one: Packaged) -> None:
    """Any user may listen on the port of metrics before the daemon does: it looks after
    jobs all the same, says who is in the way, and serves once the port is free."""
    box = one.box
    pid = pid_of(box, "train")
    box.run("systemctl", "stop", "trainwarden")
    taker = box.begin("python3", "-m", "http.server", "9464", "--bind", "127.0.0.1",
                      user="mallory")  # fmt: skip
    asked = (
        "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/').status)"
    )
    box.until(lambda: box.run("python3", "-c", asked, check=False).returncode == 0)
    box.run("systemctl", "start", "trainwarden")
    assert pid_of(box, "train") == pid
    said = box.says("journalctl", "-u", "trainwarden", "-p", "warning", "-o", "cat")
    assert "cannot serve metrics on 127.0.0.1:9464: Address already in use" in said
    box.run("pkill", "--uid", "mallory")
    taker.wait(30)
    healthy = asked.replace("9464/", "9464/-/healthy")
    box.until(lambda: box.run("python3", "-c", healthy, check=False).returncode == 0)


def check_a_configuration_that_is_wrong(one: Packaged) -> None:
    """It is refused with its place and reason, training goes on, and so does the daemon
    once it is mended."""
    box = one.box
    pid = pid_of(box, "train")
    configuration = box.root / CONFIGURATION
    right = configuration.read_text()
    configuration.write_text(f"{right}\nlisten = = 3\n")
    done = box.run("systemctl", "restart", "trainwarden", check=False)
    assert done.returncode
    said = box.says("journalctl", "-u", "trainwarden", "-o", "cat")
    assert f"the configuration /{CONFIGURATION} cannot be used" in said
    configuration.write_text(right)
    box.run("systemctl", "reset-failed", "trainwarden", check=False)
    box.run("systemctl", "restart", "trainwarden")
    assert pid_of(box, "train") == pid


def check_a_question_that_nobody_answers(one: Packaged) -> None:
    """Both we and root have changed a file in /etc, and dpkg asks where nobody answers:
    training goes on without the daemon until it is told, and then as if nothing was."""
    box = one.box
    pid = pid_of(box, "train")
    configuration = box.root / CONFIGURATION
    mine = EDITED + configuration.read_text()
    configuration.write_text(mine)
    said = one.dpkg("--install", one.changed, check=False)
    assert "end of file on stdin at conffile prompt" in said
    goes_on(box, "train", pid)
    one.dpkg("--force-confold", "--configure", "--pending")
    assert configuration.read_text() == mine
    assert pid_of(box, "train") == pid
    assert box.trainwarden("incidents", "train").stdout == "no incidents\n"


def check_a_downgrade(one: Packaged) -> None:
    """Under a job, to what knows the ledger; where it does not, it is refused, nothing is
    lost, and the newer one goes on with it."""
    box = one.box
    pid = pid_of(box, "train")
    one.dpkg("--force-confold", "--install", one.package)
    assert box.says("trainwarden", "--version").endswith(one.version)
    assert pid_of(box, "train") == pid
    as_of_later(box, +1)
    done = box.run("systemctl", "start", "trainwarden", check=False)
    assert done.returncode
    said = box.says("journalctl", "-u", "trainwarden", "-o", "cat")
    assert "was written by a newer version of trainwarden" in said
    assert "upgrade again" in said
    goes_on(box, "train", pid)
    as_of_later(box, -1)
    box.run("systemctl", "start", "trainwarden")
    assert pid_of(box, "train") == pid


def as_of_later(box: BootedContainer, by: int) -> None:
    """The ledger as a version that is newer by so much leaves it; the daemon is stopped."""
    box.run("systemctl", "stop", "trainwarden")
    box.run("systemctl", "reset-failed", "trainwarden", check=False)
    change = (
        "import sqlite3; c = sqlite3.connect('/var/lib/trainwarden/ledger.sqlite'); "
        "v, = c.execute('PRAGMA user_version').fetchone(); "
        f"c.execute(f'PRAGMA user_version = {{v + {by}}}'); c.commit(); c.close()"
    )
    box.run("python3", "-c", change, user="trainwarden")


CHECKS: tuple[Callable[[Packaged], None], ...] = (
    check_it_installs,
    check_commands_work,
    check_who_may_have_jobs,
    check_nothing_is_left_where_nobody_had_a_job,
    check_an_upgrade_under_a_job,
    check_what_others_may,
    check_a_port_that_somebody_took,
    check_a_configuration_that_is_wrong,
    check_a_question_that_nobody_answers,
    check_a_downgrade,
    check_what_was_stopped_stays_stopped,
    check_removed_under_a_job,
    check_purged_under_a_job,
    check_moving_over_from_a_clone,
)
"""In this order: each goes on where the one before ended."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of this checkout."""
    needed_for_packages()
    given = os.environ.get("TRAINWARDEN_DEB")
    return Path(given) if given else build_package(tmp_path_factory.mktemp("dist"))


def test_its_life(package: Path, tmp_path: Path) -> None:
    """Everything that ``CHECKS`` says holds, one after the other, on one machine."""
    (tmp_path / "made").mkdir()
    copied = tmp_path / "made" / package.name
    copied.write_bytes(package.read_bytes())
    later = as_later_version(copied, LATER, tmp_path / "aside")
    changed = as_later_version(
        copied, CHANGED, tmp_path / "aside", more=f"/{CONFIGURATION}"
    )
    with debian_in(tmp_path, package) as box:
        for path in (copied, later, changed):
            path.rename(box.shared / path.name)
        one = Packaged(
            box,
            f"/shared/{copied.name}",
            f"/shared/{later.name}",
            f"/shared/{changed.name}",
            field_of(package, "Version"),
        )
        one.fresh = set(box.says(*LISTED).splitlines())
        for check in CHECKS:
            check(one)


def test_the_same_checkout_gives_the_same_bytes(package: Path, tmp_path: Path) -> None:
    """Built again, it differs in no byte."""
    assert build_package(tmp_path).read_bytes() == package.read_bytes()


def test_it_is_for_the_python_it_was_built_for(package: Path) -> None:
    """Another minor version would find none of its packages: apt is told."""
    asked = "import sys; print(*sys.version_info[:2])"
    major, minor = map(int, ended_well("/usr/bin/python3", "-Ic", asked).split())
    depends = field_of(package, "Depends").split(", ")
    assert f"python3 (>= {major}.{minor})" in depends
    assert f"python3 (<< {major}.{minor + 1})" in depends


def test_lintian_finds_no_error(package: Path, tool: Callable[[str], str]) -> None:
    """But those that the package overrides, with reasons."""
    said = ended_well(
        tool("lintian"), "--fail-on=error", "--tag-display-limit=0", package
    )
    assert "E:" not in said
