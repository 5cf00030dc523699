"""What empties a box or takes a GPU away, and what brings all of it back."""

import json
import os
import traceback
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from supervisor.cli.commands import job_commands
from supervisor.cli.commands.job_commands import ask_each
from supervisor.cli.sources.daemon_client import client_of
from supervisor.core.jobs.authorization import Caller
from supervisor.daemon.api.routes import answer
from supervisor.daemon.daemon import Daemon
from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError
from supervisor.host.control.control_server import Request
from supervisor.host.service.user_name import user_name
from tests.support.boxes import until
from tests.support.daemon_commands import (
    GPUS,
    ONE_AT_A_TIME,
    finished,
    invoke,
    kept_out,
    told,
)


def states() -> dict[str, str]:
    """Of every job."""
    return {row["job"]: row["state"] for row in told("status")}


def test_a_box_is_emptied_and_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    """Paused, all that runs is drained and waits; resumed, it goes on. What somebody had
    stopped before, and what was over, stays as it was."""
    del daemon
    for name in ("endless", "idle", "train"):
        script = tmp_path / f"{name}.py"
        script.touch()
        assert invoke("submit", script).exit_code == 0
        if name == "idle":
            invoke("stop", name)
    until(lambda: states()["endless"] == "running")
    until(lambda: states()["train"] == "finished")
    until(lambda: states()["idle"] in {"drained", "finished"})
    before = states()
    assert invoke("pause").exit_code == 0
    assert [row["job"] for row in told("restart", "--all")] == ["endless"]
    until(lambda: states()["endless"] == "queued")
    assert told("restart", "--all") == []
    assert invoke("restart", "--all").stdout == "no job runs\n"
    assert invoke("resume").exit_code == 0
    until(lambda: states()["endless"] == "running")
    assert states() == before
    assert "not both" in invoke("restart", "--all", "endless").output
    assert "which job?" in invoke("restart").output


def test_one_that_is_refused_keeps_no_other(daemon: Daemon, tmp_path: Path) -> None:
    """A job may come to its end before it is its turn to be restarted."""
    del daemon
    finished(tmp_path)
    script = tmp_path / "endless.py"
    script.touch()
    assert invoke("submit", script).exit_code == 0
    until(lambda: states()["endless"] == "running")
    answers = ask_each(client_of(None), ["train", "endless"], "restart", {})
    assert [job["job"] for job in answers.done] == ["endless"]
    assert "train has finished" in answers.refused[0]
    assert answers.others == []
    until(lambda: {row["job"]: row["attempt"] for row in told("status")}["endless"] > 1)


def test_all_that_is_stopped_is_what_would_run(daemon: Daemon, tmp_path: Path) -> None:
    """What has ended is not asked to end, whatever became of it."""
    del daemon
    finished(tmp_path)
    script = tmp_path / "endless.py"
    script.touch()
    for name in ("endless-1", "endless-2"):
        assert invoke("submit", "--name", name, script).exit_code == 0
    until(lambda: states()["endless-1"] == states()["endless-2"] == "running")
    invoke("stop", "endless-2")
    until(lambda: states()["endless-2"] == "drained")
    assert [row["job"] for row in told("stop", "--all")] == ["endless-1"]
    until(lambda: states()["endless-1"] == "drained")
    assert invoke("stop", "--all").stdout == "no job runs\n"


def test_a_changed_script_is_refused_at_once(daemon: Daemon, tmp_path: Path) -> None:
    """Whoever asks for a start that cannot be is told then and there; the job stays as it
    was. Once they have decided, it goes on, and nothing is said of before."""
    del daemon
    script = tmp_path / "endless.py"
    script.touch()
    assert invoke("submit", script).exit_code == 0
    until(lambda: states()["endless"] == "running")
    script.write_text("print('mended')\n")
    refused = invoke("restart", "endless")
    assert refused.exit_code == 1
    assert states()["endless"] == "running"
    invoke("drain", "endless")
    until(lambda: states()["endless"] == "drained")
    refused = invoke("start", "endless")
    assert refused.exit_code == 1
    assert "changed since its snapshots were made" in refused.stderr
    assert "--accept-changes" in refused.stderr
    other = tmp_path / "other.py"
    other.touch()
    refused = invoke("submit", "--name", "endless", other)
    assert refused.exit_code == 1
    assert "the name 'endless' belongs to" in refused.stderr
    assert states()["endless"] == "drained"
    (job,) = told("status")
    assert job["wanted"] == "stop"
    again = invoke("start", "--accept-changes", "endless")
    assert again.stdout == "endless: queued: waiting for its turn\n"
    until(lambda: states()["endless"] == "running")


def test_a_start_tells_nothing_of_before(daemon: Daemon, tmp_path: Path) -> None:
    """A job that waited while the box was paused, and is started after that."""
    del daemon
    script = tmp_path / "endless.py"
    script.touch()
    invoke("pause")
    assert invoke("submit", script).exit_code == 0
    until(lambda: "paused by" in told("status")[0]["message"])
    invoke("stop", "endless")
    invoke("resume")
    assert "paused" not in invoke("start", "endless").stdout
    until(lambda: states()["endless"] == "running")


def test_a_job_that_never_began_is_forgotten_whole(
    daemon: Daemon, tmp_path: Path
) -> None:
    """It has no snapshots to remove."""
    del daemon
    script = tmp_path / "train.py"
    script.touch()
    assert invoke("submit", "--gpu-count", "9", script).exit_code == 0
    assert invoke("stop", "train").exit_code == 0
    done = invoke("forget", "--snapshots", "train")
    assert done.exit_code == 0, done.output
    assert told("status") == []
    assert invoke("forget", "--snapshots", "train").exit_code == 2


def test_what_was_not_paused_is_not_resumed(daemon: Daemon) -> None:
    """It is no failure, but not told as something done."""
    del daemon
    assert invoke("resume").stdout == "it was not paused\n"
    invoke("pause")
    assert invoke("resume").stdout == "resumed\n"


@dataclass(frozen=True, slots=True)
class Leaving(Client):
    """Talks to a daemon that goes away after one answer."""

    real: Client
    asked: list[str] = field(default_factory=list[str])

    @override
    def post(self, place: str, body: dict[str, Any]) -> Any:
        self.asked.append(place)
        client = self.real if len(self.asked) == 1 else Client(Path("/nowhere"))
        return client.post(place, body)


def test_a_daemon_that_goes_away_amid_all(daemon: Daemon, tmp_path: Path) -> None:
    """What was asked for before that is told; who heard nothing of it is said."""
    del daemon
    script = tmp_path / "endless.py"
    script.touch()
    assert invoke("submit", script).exit_code == 0
    until(lambda: states()["endless"] == "running")
    leaving = Leaving(Path("/nowhere"), client_of(None))
    answers = ask_each(leaving, ["endless", "two", "three"], "restart", {})
    assert [job["job"] for job in answers.done] == ["endless"]
    assert answers.refused == [
        "no daemon answers at /nowhere: two and 1 more may not have heard of it"
    ]
    with pytest.raises(NoDaemonError):
        ask_each(Client(Path("/nowhere")), ["endless"], "restart", {})


@dataclass(frozen=True, slots=True)
class AsMember(Client):
    """Asks as a member of the group, who has no say in the jobs of others."""

    daemon: Daemon
    member = Caller(
        uid=4242, name=user_name(os.geteuid()), groups=frozenset({"trainwarden"})
    )

    @override
    def get(self, place: str) -> Any:
        return self._said("GET", place, {})

    @override
    def post(self, place: str, body: dict[str, Any]) -> Any:
        return self._said("POST", place, body)

    def _said(self, method: str, place: str, body: dict[str, Any]) -> Any:
        request = Request(caller=self.member, method=method, path=place, body=body)
        with ONE_AT_A_TIME:
            said = answer(self.daemon.api, request)
        if said.status >= HTTPStatus.BAD_REQUEST:
            raise RefusedError(said.body["error"], status=said.status)
        raw = isinstance(said.body, bytes)
        return json.loads(said.body) if raw else json.loads(json.dumps(said.body))


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("restart", "--all"), "running"),
        (("drain", "--all"), "drained"),
        (("stop", "--all"), "drained"),
    ],
)
def test_all_of_a_member_are_their_own(
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    state: str,
) -> None:
    """Those of others are left alone, and named; that is no failure."""
    for name in ("endless", "endless-2"):
        script = tmp_path / f"{name}.py"
        script.touch()
        assert invoke("submit", script).exit_code == 0
    until(lambda: set(states().values()) == {"running"})
    theirs = daemon.scheduler.entries["endless-2"]
    theirs.reread(replace(theirs.row, owner="bob"))
    with monkeypatch.context() as member:

        def client_of_member(_place: Path | None) -> Client:
            return AsMember(Path("/nowhere"), daemon)

        member.setattr(job_commands, "client_of", client_of_member)
        done = invoke(*words)
        member.setattr(job_commands, "MOST_NAMED", 0)
        many = invoke(*words)
    assert done.exit_code == 0, done.output
    assert many.exit_code == 0, "".join(traceback.format_exception(many.exception))
    assert "left out: 1 more jobs of others\n" in many.stderr
    assert done.stdout.startswith("endless: ")
    assert "endless-2" not in done.stdout
    assert "left out: endless-2: the job belongs to bob" in done.stderr
    until(lambda: states() == {"endless": state, "endless-2": "running"})


def test_a_gpu_is_taken_out_of_service_and_back(daemon: Daemon, tmp_path: Path) -> None:
    """It is given to no job meanwhile, and the list says so; `--return` brings it back,
    out of quarantine as well."""
    kept_out(tmp_path / "state", "GPU-b", "GPU-gone")
    shown = invoke("quarantine", "--out", "GPU-a").stdout.splitlines()
    assert shown[-1] == "GPU-a: out of service"
    assert [row["gpu"] for row in told("quarantine", "--out", "GPU-b")] == [
        "GPU-b",
        "GPU-gone",
    ]
    assert daemon.scheduler.out_of_service == frozenset(GPUS)
    assert invoke("quarantine", "--out", "GPU-gone").exit_code == 0
    back = invoke("quarantine", "--return", "GPU-a")
    assert back.exit_code == 0
    assert "GPU-a" not in back.stdout
    assert [row["gpu"] for row in told("quarantine", "--return", "GPU-b")] == [
        "GPU-gone"
    ]
    assert daemon.scheduler.out_of_service == {"GPU-gone"}
    did = [row.did for row in daemon.api.book.audit()]
    assert "GPU-a out of service" in did
    assert "GPU-a into service" in did
    assert "there is no GPU 'GPU-z'" in invoke("quarantine", "--out", "GPU-z").output
    both = invoke("quarantine", "--out", "GPU-a", "--return", "GPU-a")
    assert both.exit_code == 2
    assert "not both" in both.output


def test_without_a_daemon_no_gpu_is_in_service(mine: Path) -> None:
    """It is said, and nothing is written."""
    mine.mkdir(parents=True)
    done = invoke("quarantine", "--out", "GPU-a", "--state-dir", mine)
    assert done.exit_code == 1
    assert "only a daemon gives GPUs to jobs" in done.output
    assert list(mine.iterdir()) == []
