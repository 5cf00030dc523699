"""How long jobs have waited, as ``/metrics`` tells it, across daemons."""

import os
import re
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from supervisor.host.service.user_name import user_name
from tests.support.boxes import BoxUnderTest, box_in, until
from tests.support.night import free_port

WAIT = re.compile(
    r'^trainwarden_queue_longest_wait_seconds\{user="(\w+)"\} (\S+)$', re.MULTILINE
)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxUnderTest]:
    """A box that has no GPU to give."""
    with box_in(tmp_path) as made:
        yield made


def waits(port: int) -> dict[str, float]:
    """What a scrape says of waiting, by user."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except OSError:
        return {}
    finally:
        connection.close()
    return {user: float(seconds) for user, seconds in WAIT.findall(text)}


@pytest.mark.slow
def test_a_wait_goes_on_through_a_restart(box: BoxUnderTest) -> None:
    """A job that waits for a GPU has waited since it was submitted, whoever the daemon
    was; once it is off the list its owner waits for nothing."""
    port, user = free_port(), user_name(os.getuid())
    box.config = f'[metrics]\nlisten = "127.0.0.1:{port}"\n'
    began = time.monotonic()
    daemon = box.begin()
    box.do("submit", "--gpu-count", "1", box.script("print('up')"))
    submitted = time.monotonic()
    until(lambda: waits(port).get(user, 0.0) > 0.0)
    box.end(daemon)
    box.begin()
    until(lambda: user in waits(port))
    waited, passed = waits(port)[user], time.monotonic() - began
    assert time.monotonic() - submitted - 2.5 <= waited <= passed
    box.do("stop", "train")
    until(lambda: waits(port).get(user) == 0.0)
