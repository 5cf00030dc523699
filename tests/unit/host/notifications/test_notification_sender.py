"""A notification reaches a real webhook and a real command, or it is said why not."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.jobs.notification import Notification
from supervisor.host.notifications.notification_sender import (
    Delivery,
    SendRequest,
    deliver,
    problem_of,
)
from supervisor.host.process.child_process import TimeUpError, run_in_session
from tests.support.boxes import alive, until
from tests.support.mail_server import mail_server
from tests.support.webhooks import Webhook, webhook

# of a module that Apprise imports (apprise/utils/pgp.py)
pytestmark = pytest.mark.filterwarnings("ignore:.imghdr.:DeprecationWarning")

TOLD = Notification(
    kind="gave_up", job="digits", title="digits gave up", text="why\nand where"
)


HOSTILE = replace(TOLD, text="<a href='http://x'>y</a>\nmore")


@pytest.fixture
def hook() -> Iterator[Webhook]:
    """One that takes everything."""
    with webhook() as made:
        yield made


def request(
    addresses: Path | None = None, *command: str, seconds: float = 10.0
) -> SendRequest:
    """To these."""
    return SendRequest(
        notification=TOLD,
        addresses=None if addresses is None else str(addresses),
        command=command,
        seconds=seconds,
    )


def test_a_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    """It crosses a pipe."""
    made = request(tmp_path / "x", "tell", "me")
    assert SendRequest.from_json(made.to_json()) == made


def test_a_webhook_is_told(hook: Webhook, tmp_path: Path) -> None:
    """Title and text arrive; of the address no more is said than its line and kind."""
    (one,) = deliver(request(hook.file(tmp_path)))
    assert one == Delivery("line 1 (json)", None)
    (came,) = hook.came
    assert (came["title"], came["message"]) == (TOLD.title, TOLD.text)
    assert came["type"] == "failure"


def test_it_is_tried_again(hook: Webhook, tmp_path: Path) -> None:
    """A service that is down for a moment misses nothing; one that stays down is told."""
    hook.refuse = 2
    (one,) = deliver(request(hook.file(tmp_path)))
    assert (one.problem, hook.asked, len(hook.came)) == (None, 3, 1)
    hook.refuse = 1000
    (one,) = deliver(request(hook.file(tmp_path), seconds=0.1))
    assert one.problem == "answered 503"


def test_each_address_for_itself(hook: Webhook, tmp_path: Path) -> None:
    """One that nobody knows is told by its line, nobody waits for one that hangs, and the
    others are told at once."""
    path = hook.file(tmp_path)
    with webhook() as dead:
        dead.silent = threading.Event()
        nobody, hangs = "nothing://here?key=hidden-word", dead.address
        path.write_text(f"{nobody}\n{hangs}\n# mine\n{hook.address}\n")
        told = deliver(request(path, seconds=0.0))
        first = {next(told), next(told)}
        assert first == {
            Delivery("line 1 (nothing)", "is no address of Apprise"),
            Delivery("line 4 (json)", None),
        }
        dead.silent.set()


def test_text_stays_text(tmp_path: Path) -> None:
    """What a script printed is no HTML in a mail, and its lines stay lines."""
    with mail_server() as server:
        path = tmp_path / "addresses"
        path.write_text(f"{server.address}\n")
        path.chmod(0o600)
        (one,) = deliver(replace(request(path), notification=HOSTILE))
    assert one == Delivery("line 1 (mailto)", None)
    (mail,) = server.came
    assert TOLD.title in str(mail["Subject"])
    text = {
        part.get_content_subtype(): part.get_content()
        for part in mail.walk()
        if part.get_content_maintype() == "text"
    }
    assert text["plain"].splitlines() == HOSTILE.text.splitlines()
    assert "<a href" not in text.get("html", "")


def test_a_command_reads_it(tmp_path: Path) -> None:
    """As JSON on its standard input."""
    out = tmp_path / "out"
    script = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())"
    (one,) = deliver(request(None, sys.executable, "-c", script))
    assert one == Delivery(sys.executable, None)
    assert json.loads(out.read_text()) == {
        "kind": "gave_up", "job": "digits", "title": TOLD.title, "text": TOLD.text,
    }  # fmt: skip


def test_a_command_that_fails_is_tried_again(tmp_path: Path) -> None:
    """As an address is; then it is told by what it ended with, or why it cannot run."""
    tried = tmp_path / "tried"
    script = f"open({str(tried)!r}, 'a').write('x'); raise SystemExit(7)"
    (one,) = deliver(request(None, sys.executable, "-c", script, seconds=1.5))
    assert one.problem == "ended with 7"
    assert len(tried.read_text()) >= 2
    (one,) = deliver(request(None, "/no/such/program", seconds=0.0))
    assert one.problem == "cannot be run: No such file or directory"


def test_a_command_that_leaves_somebody_behind(tmp_path: Path) -> None:
    """Its own end counts; who it left goes on, and keeps nobody waiting."""
    script = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n"
    )
    (one,) = deliver(request(None, sys.executable, "-c", script))
    assert one.problem is None
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_command_that_does_not_end_is_killed_with_its_own(tmp_path: Path) -> None:
    """All of its process group."""
    script = (
        "import os, subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(TimeUpError):
        run_in_session([sys.executable, "-c", script], seconds=2.0, text="")
    left = int((tmp_path / "pid").read_text())
    until(lambda: not alive(left))


def test_what_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    """Known before anything starts; the command is told all the same."""
    assert problem_of(None, ()) is None
    assert "No such file" in str(problem_of(str(tmp_path / "none"), ()))
    assert "is no program" in str(problem_of(None, [str(tmp_path / "none")]))
    told = list(deliver(request(tmp_path / "none", sys.executable, "-c", "")))
    assert [one.problem is None for one in told] == [False, True]
