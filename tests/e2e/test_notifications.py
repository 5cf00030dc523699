"""Who does not watch a run is told of it: by ``run``, by a daemon, and never in its way."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boxes import box_in, until
from tests.support.command import COMMAND, Trainwarden
from tests.support.samples import sampled
from tests.support.webhooks import Webhook, webhook

FAILS = "raise SystemExit('the data are not there')"


@pytest.fixture
def hook() -> Iterator[Webhook]:
    """One that takes everything."""
    with webhook() as made:
        yield made


def spec_of(trainwarden: Trainwarden, hook: Webhook, more: str = "") -> Path:
    """A spec that notifies it."""
    file = hook.file(trainwarden.directory)
    text = f'[notify]\naddresses = "{file}"\n{more}'
    return trainwarden.script(text, "job.toml")


def notify(*options: str | Path) -> subprocess.CompletedProcess[str]:
    """The command, which needs no state directory."""
    return subprocess.run(
        [COMMAND, "notify", *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_end_is_told(trainwarden: Trainwarden, hook: Webhook) -> None:
    """Finished and given up, each once; what was sent stands in a log without secrets."""
    spec = spec_of(trainwarden, hook)
    done = trainwarden("run", "--spec", spec, trainwarden.script("print('done')"))
    assert done.returncode == 0, done.stderr
    failed = trainwarden("run", "--spec", spec, trainwarden.script(FAILS, "fails.py"))
    assert failed.returncode == 1
    here = socket.gethostname()
    assert hook.titles == [f"train finished on {here}", f"fails gave up on {here}"]
    logs = [p.read_text() for p in trainwarden.state.rglob("notifications.log")]
    assert len(logs) == 2
    for log in logs:
        assert "sent" in log
        assert "hidden-word" not in log
    everything = b"".join(
        p.read_bytes() for p in trainwarden.state.rglob("*") if p.is_file()
    )
    assert b"hidden-word" not in everything


@pytest.mark.slow
def test_only_what_is_wanted(trainwarden: Trainwarden, hook: Webhook) -> None:
    """The others are no news to them."""
    spec = spec_of(trainwarden, hook, 'on = ["gave_up"]\n')
    done = trainwarden("run", "--spec", spec, trainwarden.script("print('done')"))
    assert done.returncode == 0, done.stderr
    assert hook.titles == []


def test_a_service_that_hangs_holds_up_nothing(
    trainwarden: Trainwarden, hook: Webhook
) -> None:
    """The run ends, and says nothing wrong; what is sent goes on without it."""
    hook.silent = threading.Event()
    spec = spec_of(trainwarden, hook)
    began = time.monotonic()
    done = trainwarden("run", "--spec", spec, trainwarden.script("print('done')"))
    assert done.returncode == 0, done.stderr
    assert "still being sent: the notification of finished" in done.stderr
    assert time.monotonic() - began < 90  # the webhook is silent for two minutes
    hook.silent.set()
    until(lambda: bool(hook.came))


@pytest.mark.parametrize("what", sampled(["pipe", "link", "directory"], "pipe"))
def test_a_log_that_is_no_file(
    trainwarden: Trainwarden, hook: Webhook, what: str
) -> None:
    """A script may write where the log lies: nothing hangs, no other file is written to,
    and everybody is told."""
    other = trainwarden.script("", "other")
    make = {
        "pipe": "os.mkfifo(log)",
        "link": f"os.symlink({str(other)!r}, log)",
        "directory": "os.mkdir(log)",
    }[what]
    script = trainwarden.script(
        "import glob, os\n"
        f"(root,) = glob.glob({str(trainwarden.state)!r} + '/jobs/train/run-*')\n"
        f"log = root + '/notifications.log'\n{make}\n"
    )
    done = trainwarden("run", "--spec", spec_of(trainwarden, hook), script)
    assert done.returncode == 0, done.stderr
    assert len(hook.came) == 1
    assert other.read_text() == ""


def test_a_long_command(trainwarden: Trainwarden) -> None:
    """More than a pipe holds is handed over all the same."""
    spec = trainwarden.script(
        f'[notify]\ncommand = ["{os.path.realpath("/bin/true")}", "{"A" * 100_000}"]\n',
        "job.toml",
    )
    done = trainwarden("run", "--spec", spec, trainwarden.script("print('done')"))
    assert done.returncode == 0, done.stderr
    (log,) = trainwarden.state.rglob("notifications.log")
    assert "sent" in log.read_text()


def test_nobody_can_be_told(trainwarden: Trainwarden, hook: Webhook) -> None:
    """It is said before anything starts."""
    spec = spec_of(trainwarden, hook)
    (trainwarden.directory / "addresses").chmod(0o644)
    refused = trainwarden("run", "--spec", spec, trainwarden.script("print('done')"))
    assert refused.returncode == 2
    assert "chmod 600" in refused.stderr
    assert "done" not in refused.stdout


def test_try_it(trainwarden: Trainwarden, hook: Webhook) -> None:
    """``notify`` says who is told, and --test tells them; a failure is its exit code."""
    spec = spec_of(trainwarden, hook)
    shown = notify("--spec", spec)
    assert "gave_up" in shown.stdout
    assert "hidden-word" not in shown.stdout + shown.stderr
    tested = notify("--test", "--json", "--spec", spec)
    (one,) = json.loads(tested.stdout)
    assert (one["problem"], len(hook.came)) == (None, 1)
    hook.refuse = 1000
    failed = notify("--test", "--spec", spec)
    assert failed.returncode == 1
    assert "answered 503" in failed.stdout


def test_a_daemon_tells_of_every_job(hook: Webhook, tmp_path: Path) -> None:
    """By its own configuration; that of a job is refused, as the daemon would have to
    read its user's file."""
    with box_in(tmp_path) as box:
        file = hook.file(tmp_path)
        box.config = f'[notify]\naddresses = "{file}"\n'
        box.begin()
        box.do("submit", box.script("print('done')"))
        box.do("submit", box.script(FAILS, "fails.py"))
        until(lambda: len(hook.came) == 2)
        told = sorted(title.partition(" on ")[0] for title in hook.titles)
        assert told == ["fails gave up", "train finished"]
        spec = box.script(f'[notify]\naddresses = "{file}"\n', "job.toml")
        refused = box.command("submit", "--spec", spec, box.script("print(1)", "b.py"))
        assert refused.returncode != 0
        assert "own configuration" in refused.stderr
