"""A unit that stands by: who is told what, and what is taken of what it answers.

A command stands in for systemd; with a real one the same is asked in ``tests/conformance``
and ``tests/operations``.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.host.launch.launcher import LaunchError, NotYetError
from supervisor.host.launch.standby_process import BECAUSE_MOST
from supervisor.host.launch.systemd import SystemdLauncher
from supervisor.host.launch.unit_main import CHANNEL, DIRECTORY
from supervisor.host.launch.unit_standby import UnitStandby, meeting_point
from supervisor.host.service.user_name import user_name
from supervisor.wire.files import read_json
from supervisor.wire.messages.standby_messages import StandbyAnswer, line
from supervisor.wire.paths import RunPaths
from tests.support.directives import directive_of, spec_of
from tests.unit.host.launch.conftest import Answers

PATIENCE = 20.0
STANDS_BY = """
import os, socket, sys
from supervisor.host.launch import unit_main
unit_main.prepare_standby({"socket": sys.argv[1], "place": sys.argv[2]})
channel = socket.socket(fileno=unit_main.CHANNEL)
print(channel.recv(4096).decode().strip(), flush=True)
print(os.readlink(f"/proc/self/fd/{unit_main.DIRECTORY}"), flush=True)
for number in (unit_main.CHANNEL, unit_main.DIRECTORY):
    assert os.get_inheritable(number)
channel.sendall(sys.argv[3].encode())
print(channel.recv(65536).decode().strip(), flush=True)
"""


@pytest.fixture
def launcher() -> Iterator[SystemdLauncher]:
    """Of the user that we are; its directory has a short name, as a socket's path has to."""
    with tempfile.TemporaryDirectory() as requests:
        user = user_name(os.geteuid())
        yield SystemdLauncher(user=user, requests=Path(requests))


@pytest.fixture
def standby(
    launcher: SystemdLauncher, tmp_path: Path, answers: Answers
) -> Iterator[UnitStandby]:
    """Of the second attempt; the unit has not connected."""
    answers(ActiveState="inactive", Job=0, MainPID=0)
    spec = spec_of(tmp_path / "train.py")
    paths = RunPaths(tmp_path / "run-1")
    directive = replace(directive_of(spec, paths, "j", attempt=2), run_id="a-run")
    made = launcher.stand_by(spec, directive, paths=paths, imports=tmp_path / "i.json")
    yield made
    made.hang_up()


def connected(standby: UnitStandby) -> socket.socket:
    """Somebody of this process."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(PATIENCE)
    made.connect(str(standby.point))
    return made


def test_whoever_is_not_the_unit_hears_nothing(
    standby: UnitStandby, answers: Answers
) -> None:
    """Only its main process does: also another process of the same user is hung up on,
    and the place stays open for the unit."""
    answers(ActiveState="active", Job=0, MainPID=1)
    with connected(standby) as other:
        assert standby.look() is None
        assert other.recv(1) == b""
    assert standby.channel is None
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    with connected(standby) as unit:
        assert standby.look() is None
        assert json.loads(unit.recv(4096))["imports"].endswith("i.json")
        assert not standby.point.exists()
        assert not standby.ended()
    assert standby.look() is None
    answers(ActiveState="inactive", Job=0)
    assert standby.ended()


def test_another_users_process_hears_nothing(
    standby: UnitStandby, answers: Answers
) -> None:
    """Whatever its pid."""
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    standby.user_id += 1
    with connected(standby) as other:
        standby.look()
        assert other.recv(1) == b""


def test_what_it_answers_is_a_line_of_plain_text(
    standby: UnitStandby, answers: Answers
) -> None:
    """It is another user's: no commands for a terminal, no sizes below nothing, an end."""
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    with connected(standby) as unit:
        standby.look()
        because = "one\n\x1b[31mtwo" + "x" * 2000
        unit.sendall(line(StandbyAnswer(because=because, memory_bytes=-5)))
        found = standby.look()
    assert found is not None
    assert found.because.startswith("one twox")
    assert len(found.because) == BECAUSE_MOST
    assert found.memory_bytes == 0


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ('{"memory_bytes": 1' + "0" * 18 + "}", 1 << 50),
        ('{"memory_bytes": 1' + "0" * 4000 + "}", 0),
        ("[" * 60_000, 0),
        ('{"because": 5}', 0),
        ('{"because": "\\ud800"}', 0),
        ("7", 0),
        ("\udcff", 0),
    ],
)
def test_no_answer_ends_a_daemon(
    standby: UnitStandby, answers: Answers, said: str, size: int
) -> None:
    """Numbers that no float holds, lists in lists, other types: a size, or no use."""
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    with connected(standby) as unit:
        standby.look()
        unit.sendall(said.encode(errors="surrogateescape") + b"\n")
        found = standby.look()
    assert found is not None
    assert found.memory_bytes == size
    assert (found.because == "") == bool(size)
    assert found.because.encode(errors="replace") == found.because.encode()


def test_one_that_ends_after_its_answer_is_noticed(
    standby: UnitStandby, answers: Answers
) -> None:
    """Else a crash would find nobody who waits."""
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    with connected(standby) as unit:
        standby.look()
        unit.sendall(line(StandbyAnswer(memory_bytes=5)))
        assert standby.look() == StandbyAnswer(memory_bytes=5)
    answers(ActiveState="inactive", Job=0)
    assert standby.look() == StandbyAnswer(memory_bytes=5)
    assert standby.ended()


def test_an_answer_without_an_end_is_none(
    standby: UnitStandby, answers: Answers
) -> None:
    """A process that only talks is of no use, and fills nobody's memory."""
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    with connected(standby) as unit:
        standby.look()
        unit.settimeout(0.0)
        found, until = None, time.monotonic() + PATIENCE
        while found is None:
            assert time.monotonic() < until
            with contextlib.suppress(BlockingIOError):
                unit.send(b"x" * 4096)
            found = standby.look()
    assert found.because == "what it answers cannot be read"


def test_a_process_of_the_users_is_told_and_answers(
    standby: UnitStandby, launcher: SystemdLauncher, answers: Answers, tmp_path: Path
) -> None:
    """By descriptors that its command names, from a directory that it has made; it hears
    the whole directive, as we may write none there."""
    place = tmp_path / "run-1" / "standby"
    (place / "before").mkdir(parents=True)
    command = [*(sys.executable, "-c", STANDS_BY), str(standby.point), str(place)]
    answer = line(StandbyAnswer(memory_bytes=7)).decode()
    with subprocess.Popen(
        [*command, answer], stdout=subprocess.PIPE, text=True
    ) as unit:
        answers(ActiveState="active", Job=0, MainPID=unit.pid)
        until = time.monotonic() + PATIENCE
        while standby.look() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert standby.answer == StandbyAnswer(memory_bytes=7)
        assert not standby.has_seen_oom_kills
        spec, told = spec_of(tmp_path / "train.py"), standby.expected
        paths = RunPaths(tmp_path / "run-1").attempt(2)
        attempt = launcher.hand_over(standby, spec, told, paths=paths)
        output, _ = unit.communicate(timeout=PATIENCE)
    plan, directory, handed_over = output.splitlines()
    assert json.loads(plan)["seed"] == told.seed
    assert [str(one) for one in place.iterdir()] == [directory]
    assert json.loads(handed_over)["content"] == json.loads(json.dumps(told.to_json()))
    assert attempt.unit == standby.unit
    request = read_json(launcher.request(told))
    assert request is not None
    assert f"/proc/self/fd/{DIRECTORY}" in request["command"]
    assert f"{CHANNEL},{DIRECTORY}" in request["command"]


def test_one_that_is_gone_is_no_attempt(
    standby: UnitStandby, launcher: SystemdLauncher, answers: Answers, tmp_path: Path
) -> None:
    """The next starts cold, and the sentence says why."""
    answers(ActiveState="active", Job=0, MainPID=os.getpid())
    with connected(standby):
        standby.look()
    spec, paths = spec_of(tmp_path / "train.py"), RunPaths(tmp_path).attempt(2)
    with pytest.raises(LaunchError, match="could not be told what to do"):
        launcher.hand_over(standby, spec, standby.expected, paths=paths)


@pytest.mark.usefixtures("answers")
def test_its_unit_is_nothing_that_is_left(
    launcher: SystemdLauncher, tmp_path: Path
) -> None:
    """Of this run and this number alone, and only while it stands by."""
    user = launcher.user
    answers_units(tmp_path, f"trainwarden-attempt-{user}@j-2.service loaded active x\n")
    assert launcher.left("a-run", job="j") is not None
    launcher.spare("a-run", 2, spared=True)
    assert launcher.left("a-run", job="j") is None
    assert launcher.left("another", job="j") is not None
    launcher.spare("a-run", 2, spared=False)
    assert launcher.left("a-run", job="j") is not None


def answers_units(directory: Path, text: str) -> None:
    """What ``systemctl list-units`` prints."""
    (directory / "said").write_text(text)


def test_one_of_before_has_to_end_first(
    launcher: SystemdLauncher, answers: Answers, tmp_path: Path
) -> None:
    """It imports for another daemon still: to start its unit would start nothing."""
    answers(ActiveState="active", Job=0, MainPID=1)
    spec, paths = spec_of(tmp_path / "train.py"), RunPaths(tmp_path / "run-1")
    told = directive_of(spec, paths, "j", attempt=2)
    with pytest.raises(NotYetError, match="has not ended yet"):
        launcher.stand_by(spec, told, paths=paths, imports=tmp_path / "i.json")
    assert not launcher.request(told).exists()


def test_a_place_too_long_for_a_socket_is_said(
    tmp_path: Path, answers: Answers
) -> None:
    """107 bytes is a socket's path at most: no standby, no traceback."""
    answers(ActiveState="inactive", Job=0)
    requests = tmp_path / ("x" * 120)
    requests.mkdir()
    launcher = SystemdLauncher(user=user_name(os.geteuid()), requests=requests)
    assert len(meeting_point(Path("/r"), "j" * 200).name) < 32
    spec, paths = spec_of(tmp_path / "train.py"), RunPaths(tmp_path / "run-1")
    told = directive_of(spec, paths, "j", attempt=2)
    with pytest.raises(LaunchError, match="cannot be started: AF_UNIX path too long"):
        launcher.stand_by(spec, told, paths=paths, imports=tmp_path / "i.json")
