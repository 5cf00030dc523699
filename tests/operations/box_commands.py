"""Commands of plain users and of root on a box with systemd: none names a directory."""

import json

from tests.support.machine import BootedContainer
from tests.support.machine_jobs import finish, running, submit


def check_no_command_needs_a_directory(box: BootedContainer) -> None:
    """A job's files are read with the rights of its user; what concerns everybody is
    for root. Nobody else gets any of it, and each no is a sentence."""
    submit(box, "looked-at")
    running(box, "looked-at")
    listed = box.trainwarden("snapshots", "--json", "looked-at", user="alice").stdout
    assert json.loads(listed) == []
    box.trainwarden("snapshots", "verify", "looked-at", user="alice")
    asked = ["memory", "--json", "--wait", "0.1", "looked-at"]
    assert json.loads(box.trainwarden(*asked, user="alice").stdout)["attempt"] == 1
    box.trainwarden(*asked)
    assert box.trainwarden("quarantine", user="bob").stdout == "no GPU is quarantined\n"
    (one, *_) = box.trainwarden(
        "logs", "--json", "looked-at", user="alice"
    ).stdout.splitlines()
    assert json.loads(one)["attempt"] == 1
    for user, words, sentence in (
        ("bob", ["snapshots", "looked-at"], "belongs to alice"),
        ("bob", ["memory", "looked-at"], "belongs to alice"),
        ("alice", ["quarantine", "--return", "GPU-a"], "only root"),
        ("alice", ["ledger", "backup", "/home/alice/copy"], "only root"),
        ("eve", ["quarantine"], "not in the group"),
    ):
        done = box.trainwarden(*words, user=user, check=False)
        assert done.returncode == 1, words
        assert sentence in done.stderr, done.stderr
    told = json.loads(
        box.trainwarden("ledger", "backup", "--json", "/root/copy").stdout
    )
    assert told["bytes"] == int(box.says("stat", "-c", "%s", "/root/copy"))
    box.run("systemctl", "stop", "trainwarden")
    gone = box.trainwarden("status", user="alice", check=False).stderr
    assert "the daemon of this box does not run" in gone
    seen = box.trainwarden("top", "--json")
    assert "no daemon runs in /var/lib/trainwarden" in seen.stderr
    assert "looked-at" in [one["job"] for one in json.loads(seen.stdout)["jobs"]]
    box.run("systemctl", "start", "trainwarden")
    refused = box.trainwarden("forget", "looked-at", user="alice", check=False)
    assert "stop it first" in refused.stderr
    finish(box, "looked-at")
    assert box.trainwarden("forget", "looked-at", user="bob", check=False).returncode
    as_root = box.trainwarden("forget", "--snapshots", "looked-at", check=False)
    assert "root does not remove its snapshots" in as_root.stderr
    box.trainwarden("forget", "--snapshots", "looked-at", user="alice")
    assert "looked-at" not in box.trainwarden("status").stdout
