"""A notification reaches a real webhook and a real command, or it is said why not."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.jobs.notification import Notification
from supervisor.host.notifications.notification_sender import (
    Delivery,
    SendRequest,
    deliver,
    problem_of,
)
from tests.support.webhooks import Webhook, webhook

# of a module that Apprise imports (apprise/utils/pgp.py)
pytestmark = pytest.mark.filterwarnings("ignore:.imghdr.:DeprecationWarning")

TOLD = Notification(
    kind="gave_up", job="digits", title="digits gave up", text="why\nand where"
)


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
    """Title and text arrive; what is said of it keeps the secret."""
    (one,) = deliver(request(hook.file(tmp_path)))
    assert one.problem is None
    assert "127.0.0.1" in one.address
    assert "hidden-word" not in one.address
    (came,) = hook.came
    assert (came["title"], came["message"]) == (TOLD.title, TOLD.text)


def test_it_is_tried_again(hook: Webhook, tmp_path: Path) -> None:
    """A service that is down for a moment misses nothing; one that stays down is told."""
    hook.refuse = 2
    (one,) = deliver(request(hook.file(tmp_path)))
    assert (one.problem, hook.asked, len(hook.came)) == (None, 3, 1)
    hook.refuse = 1000
    (one,) = deliver(request(hook.file(tmp_path), seconds=0.1))
    assert one.problem == "did not take it"


def test_each_address_for_itself(hook: Webhook, tmp_path: Path) -> None:
    """One that nobody knows is told by its line, and the others are reached."""
    path = hook.file(tmp_path)
    path.write_text(f"nothing://here?key=hidden-word\n{hook.address}\n")
    unknown, known = deliver(request(path))
    assert unknown == Delivery(f"line 1 of {path}", "is no address of Apprise")
    assert known.problem is None


def test_a_command_reads_it(tmp_path: Path) -> None:
    """As JSON on its standard input."""
    out = tmp_path / "out"
    script = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())"
    (one,) = deliver(request(None, sys.executable, "-c", script))
    assert one == Delivery(sys.executable, None)
    assert json.loads(out.read_text()) == {
        "kind": "gave_up", "job": "digits", "title": TOLD.title, "text": TOLD.text,
    }  # fmt: skip


def test_a_command_that_fails_is_told() -> None:
    """By what it ended with, or why it cannot be run."""
    (one,) = deliver(request(None, sys.executable, "-c", "raise SystemExit(7)"))
    assert one.problem == "ended with 7"
    (one,) = deliver(request(None, "/no/such/program"))
    assert one.problem == "cannot be run: No such file or directory"


def test_a_file_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    """Known before anything starts; the command is told all the same."""
    assert problem_of(None) is None
    assert "No such file" in str(problem_of(str(tmp_path / "none")))
    first, second = deliver(request(tmp_path / "none", sys.executable, "-c", ""))
    assert "No such file" in str(first.problem)
    assert second.problem is None
