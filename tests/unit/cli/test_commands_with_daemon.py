"""Commands that name no directory: the daemon of the box tells them where things are."""

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.sources import daemon_client
from supervisor.cli.sources.box_site import BoxSite
from supervisor.cli.sources.box_source import BoxSource, source_of
from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.job_status import JobState
from supervisor.core.remediation.history import AttemptHistory
from supervisor.daemon.api.routes import answer
from supervisor.daemon.daemon import Daemon
from supervisor.host.control.control_server import Request, Response
from supervisor.host.ledger.job_book import JobBook, WantedState
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.lock import acquire
from supervisor.host.service.user_name import user_name
from supervisor.host.telemetry.log_parts import TAIL_BYTES
from supervisor.wire.paths import StatePaths
from tests.support.boxes import until
from tests.support.daemon_commands import (
    GPUS,
    ONE_AT_A_TIME,
    finished,
    invoke,
    kept_out,
    told,
)


def asked(
    daemon: Daemon, who: str, method: str, path: str, *groups: str, body: Any = None
) -> Response:
    """What somebody else gets."""
    caller = Caller(uid=4711, name=who, groups=frozenset(groups))
    request = Request(caller=caller, method=method, path=path, body=body or {})
    with ONE_AT_A_TIME:
        return answer(daemon.api, request)


def test_a_job_that_asked_for_no_gpu_is_advised_on_the_cpu(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Under a daemon it sees none, however many the box has."""
    del daemon
    finished(tmp_path)
    done = invoke("advise", "--gpu-memory", "1GiB", "train")
    assert done.exit_code == 2, done.output
    because = "the job asks for no GPU"
    assert f"--gpu-memory limits nothing here: {because}" in done.output


def test_the_files_of_a_job(daemon: Daemon, tmp_path: Path) -> None:
    """They are found by its name alone."""
    del daemon
    finished(tmp_path)
    (row,) = told("snapshots", "train")
    assert row["step"] == 7
    assert row["path"].startswith(str(tmp_path / "state" / "jobs" / "train" / "run-1"))
    assert (
        f"on disk: {Path(row['path']).parent}\n" in invoke("snapshots", "train").stdout
    )
    assert told("memory", "train")["attempt"] == 1


def test_a_table_in_a_pipe_is_printed_at_each_look(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Whole lines, every time, not only the last one when it ends."""
    del daemon
    finished(tmp_path)
    shown = invoke("top", "--times", "2", "--every", "0.1").stdout
    assert shown.endswith("\n")
    assert sum(line.startswith("train ") for line in shown.splitlines()) == 2


def test_what_a_job_printed(daemon: Daemon, tmp_path: Path) -> None:
    """As it came, or as JSON lines."""
    finished(tmp_path)
    files = daemon.api.files(daemon.caller, "train").paths.attempt(1)
    files.output.write_text("one\ntwo")
    assert invoke("logs", "train").stdout == "one\ntwo"
    lines = invoke("logs", "--json", "train").stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["one", "two"]
    assert json.loads(lines[0])["attempt"] == 1


def test_the_history_of_all_runs(daemon: Daemon, tmp_path: Path) -> None:
    """Of a job that finished too; the same from the files as from the daemon, and no run
    that was not asked for."""
    assert invoke("history").stdout == "no run is known yet\n"
    finished(tmp_path)
    assert invoke("history", "--user", "nobody").stdout == "no run matches\n"
    (run,) = told("history")
    assert (run["job"], run["run"], run["state"]) == ("train", 1, "finished")
    assert (run["exit_code"], run["attempts"], run["steps"]) == (0, 1, 7)
    assert run["user"] == daemon.caller.name
    assert run["gpus"] == run["gpu_seconds"] == 0
    assert told("history", "--state-dir", daemon.scheduler.starter.paths.root)
    assert told("history", "--user", "nobody") == []
    assert told("history", "--state", "gave_up", "--name", "tr*") == []
    assert told("history", "--since", "7d", "--until", "2100-01-01") == [run]
    assert told("history", "--until", "2001-01-01T12:00") == []
    wrong = invoke("history", "--since", "soon")
    assert wrong.exit_code == 2
    assert "expected a date" in wrong.output
    shown = invoke("history").stdout
    assert "train  1" in shown
    assert "finished" in shown
    assert "GPU time" in shown
    assert shown.splitlines()[-1].split()[-5] == "-"  # of GPU time: it had no GPU


def test_a_job_to_look_at(daemon: Daemon, tmp_path: Path) -> None:
    """As report and as page: through the daemon, with the rights of who asks."""
    finished(tmp_path)
    text = invoke("report", "train", "-o", "-").stdout
    nowhere = tmp_path / "none" / "x.html"
    refused = invoke("report", "train", "-o", nowhere)
    assert refused.exit_code == 1
    assert f"make the directory (`mkdir -p {nowhere.parent}`)" in refused.output
    assert "or name another file with -o" in refused.output
    assert text.startswith("<!doctype html>")
    assert "train, run 1" in text
    site = BoxSite(source=lambda: source_of(None))
    assert "As its daemon tells it" in site("/").body
    shown = json.loads(site("/api/jobs/train").body)
    assert shown["stage"] == "train: finished, attempt 1."
    assert shown["parts"][0]["html"] in site("/jobs/train").body
    nothing = site("/jobs/nobody")
    assert (nothing.status, "no job" in nothing.body) == (404, True)
    for path in ("history", "jobs/train/record"):
        there = asked(daemon, "bob", "GET", f"/v1/{path}", "trainwarden")
        assert there.status == (200 if path == "history" else 403)
        nobody = asked(daemon, "bob", "GET", f"/v1/{path}")
        assert nobody.status == 403


def test_one_look_at_the_box(daemon: Daemon, tmp_path: Path) -> None:
    """``top`` tells as JSON what it would draw."""
    del daemon
    finished(tmp_path)
    told_of = told("top")
    assert [gpu["gpu"] for gpu in told_of["gpus"]] == list(GPUS)
    assert told_of["jobs"][0]["state"] == "finished"
    assert told_of["launcher"]


def test_a_job_is_watched(daemon: Daemon, tmp_path: Path) -> None:
    """What ``top`` shows of it is told by the daemon, and by the files without it."""
    finished(tmp_path)
    files = daemon.api.files(daemon.caller, "train").paths.attempt(1)
    files.output.write_bytes(b"one\ntwo\xff")
    told_by, stored = source_of(None), BoxSource(client=None, where=tmp_path / "state")
    assert (told_by.box()["launcher"] is None, stored.box()["launcher"]) == (
        False,
        None,
    )
    for source in (told_by, stored):
        tail = source.log_tail("train")
        assert (tail.attempt, tail.text) == (1, "one\ntwo\ufffd")
        assert source.box()["jobs"][0]["state"] == "finished"
        assert source.incidents("train") == []
        assert source.log_tail("nobody").problem
    files.output.write_bytes(b"x\n" * TAIL_BYTES)
    for source in (told_by, stored):
        assert source.log_tail("train").text.count("x\n") == TAIL_BYTES // 2 - 1


def test_a_run_in_the_foreground_is_found_beside_a_daemon(
    daemon: Daemon, mine: Path
) -> None:
    """It is none of the daemon's jobs; its own state directory knows it."""
    del daemon
    mine.mkdir(parents=True)
    kept_out(mine, "GPU-z")
    assert told("snapshots", "old") == []
    unknown = invoke("snapshots", "no-such")
    assert unknown.exit_code == 2  # as without a daemon
    assert "there is no job 'no-such'" in unknown.output
    named = invoke("snapshots", "--state-dir", mine.parent / "none", "old")
    assert named.exit_code == 2


@pytest.mark.parametrize("verb", ["stop", "drain", "start", "restart", "forget"])
def test_two_jobs_of_one_name(
    daemon: Daemon, mine: Path, tmp_path: Path, verb: str
) -> None:
    """One in the foreground, one of the daemon: who is asked for neither ends neither, and
    is told how to name them."""
    script = tmp_path / "endless.py"
    script.touch()
    assert invoke("submit", script).exit_code == 0
    until(lambda: told("status")[0]["state"] == "running")
    lock = StatePaths(mine).lock("endless")
    lock.parent.mkdir(parents=True)
    held = acquire(lock)
    assert held is not None
    asked_for = invoke(verb, "endless")
    assert asked_for.exit_code == 1
    assert f"--state-dir {mine} is that in the foreground" in asked_for.output
    assert f"--state-dir {tmp_path / 'state'} that of the daemon" in asked_for.output
    assert f"process {os.getpid()}" in asked_for.output
    assert daemon.scheduler.entries["endless"].row.wanted is WantedState.RUN
    stopped = invoke("stop", "endless", "--state-dir", tmp_path / "state")
    assert stopped.exit_code == 0, stopped.output
    held.release()


@pytest.mark.parametrize("verb", ["stop", "drain"])
def test_a_job_of_the_daemon_alone(daemon: Daemon, tmp_path: Path, verb: str) -> None:
    """A lock that nobody holds is in nobody's way."""
    del daemon
    script = tmp_path / "endless.py"
    script.touch()
    assert invoke("submit", script).exit_code == 0
    until(lambda: told("status")[0]["state"] == "running")
    assert invoke(verb, "endless").exit_code == 0


def test_what_may_not_be_read_does_not_pass_for_empty(
    daemon: Daemon, tmp_path: Path
) -> None:
    """The command says whose it is."""
    finished(tmp_path)
    run = Path(daemon.api.files(daemon.caller, "train").directory)
    run.rename(run.with_name("elsewhere"))
    assert told("snapshots", "train") == []
    run.touch()
    refused = invoke("snapshots", "train")
    assert refused.exit_code == 1
    assert "for the job's user and for root" in refused.output


def test_root_does_not_run_what_a_user_calls_python(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Whoever may choose the interpreter of a job would be root otherwise."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    finished(tmp_path)
    os.chown(daemon.api.files(daemon.caller, "train").directory, 4711, 4711)
    refused = invoke("snapshots", "export", "train", "7", tmp_path / "x.keras")
    assert refused.exit_code == 1
    assert "root does not run its interpreter" in refused.output


def test_a_gpu_comes_back_through_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    """At once, and it stands in the ledger who said so."""
    kept_out(tmp_path / "state", *GPUS)
    assert [row["gpu"] for row in told("quarantine")] == list(GPUS)
    script = tmp_path / "train.py"
    script.touch()
    assert invoke("submit", "--gpu-count", "1", script).exit_code == 0
    until(lambda: "0 are in service" in told("status")[0]["message"])
    assert [row["gpu"] for row in told("quarantine", "--return", "GPU-a")] == ["GPU-b"]
    until(lambda: told("status")[0]["state"] == "finished")
    again = invoke("quarantine", "--return", "GPU-a")
    assert again.exit_code == 2
    assert "GPU-a is not quarantined" in again.output
    did = [(row.who, row.did) for row in daemon.api.book.audit()]
    assert (user_name(os.geteuid()), "GPU-a out of quarantine") in did
    assert sum("quarantine" in what for _, what in did) == 1


def test_without_a_daemon_it_is_written_down_too(mine: Path) -> None:
    """Who put a GPU back."""
    mine.mkdir(parents=True)
    kept_out(mine, "GPU-z")
    assert told("quarantine", "--return", "GPU-z", "--state-dir", mine) == []
    with contextlib.closing(Ledger(StatePaths(mine).ledger)) as ledger:
        (row,) = JobBook(ledger).audit()
    assert row.did == "GPU-z out of quarantine"
    assert row.who


def test_the_ledger_is_copied_through_the_daemon(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Whole, and for nobody else to read."""
    del daemon
    finished(tmp_path)
    copy = tmp_path / "ledger.bak"
    assert told("ledger", "backup", copy)["bytes"] == copy.stat().st_size
    assert copy.stat().st_mode & 0o077 == 0
    with contextlib.closing(Ledger(copy, read_only=True)) as ledger:
        assert [job.name for job in JobBook(ledger).jobs()] == ["train"]
    nowhere = invoke("ledger", "backup", tmp_path / "none" / "ledger.bak")
    assert nowhere.exit_code == 1
    assert "cannot be written" in nowhere.output


def test_a_job_is_forgotten(daemon: Daemon, tmp_path: Path) -> None:
    """It is on no list, its name is free and its next run begins anew; what went wrong,
    and who did it, stays. Its snapshots, and what XLA compiled, go only if that was said."""
    finished(tmp_path)
    files = daemon.api.files(daemon.caller, "train").paths
    compiled = files.compilations / "key"
    compiled.mkdir(parents=True)
    assert told("forget", "train") == {"job": "train", "snapshots_removed": False}
    assert told("status") == []
    assert invoke("snapshots", "train").exit_code == 2
    assert "there is no job" in invoke("forget", "train").output
    assert any(files.snapshots.iterdir())
    assert compiled.exists()
    finished(tmp_path)
    run = daemon.api.files(daemon.caller, "train").paths
    said = invoke("forget", "train").output
    assert f"its snapshots stay in {run.snapshots} until a new run" in said
    assert f"{run.snapshots} {run.compilations}` removes them now" in said
    assert any(run.snapshots.iterdir())
    assert daemon.api.book.audit()[-1].did == "forget"
    with contextlib.closing(Ledger(daemon.api.ledger.path, read_only=True)) as ledger:
        assert ledger.latest_runs() == []
    finished(tmp_path)
    files = daemon.api.files(daemon.caller, "train").paths
    assert files.root.name == "run-3"
    (attempt,) = (files.root / "attempts").iterdir()
    assert attempt.name == "0001"
    assert told("forget", "train", "--snapshots")["snapshots_removed"]
    assert not files.snapshots.exists()
    assert not compiled.exists()


def test_what_is_not_forgotten(daemon: Daemon, tmp_path: Path) -> None:
    """What runs, what belongs to others, and what a job file would bring back."""
    (tmp_path / "train.py").touch()
    kept_out(tmp_path / "state", *GPUS)
    assert invoke("submit", "--gpu-count", "1", tmp_path / "train.py").exit_code == 0
    path, member = "/v1/jobs/train/forget", "trainwarden"
    assert asked(daemon, "bob", "POST", path, member).status == 403
    entry = daemon.scheduler.entries["train"]
    source, jobs = "train.toml", tmp_path / "state" / "jobs.d"
    entry.reread(replace(entry.row, source=source))
    jobs.mkdir()
    (jobs / source).touch()
    in_file = invoke("forget", "train")
    assert in_file.exit_code == 1
    assert "stands in the job file train.toml" in in_file.output
    (jobs / source).unlink()
    assert invoke("forget", "train").exit_code == 0  # it waits for a GPU
    assert told("status") == []


def test_what_runs_is_not_forgotten(daemon: Daemon, tmp_path: Path) -> None:
    """Not even by who may do everything."""
    del daemon
    (tmp_path / "endless.py").touch()
    assert invoke("submit", tmp_path / "endless.py").exit_code == 0
    until(lambda: told("status")[0]["state"] == "running")
    refused = invoke("forget", "endless")
    assert refused.exit_code == 1
    assert "stop it first" in refused.output


def test_a_run_in_the_foreground_is_forgotten(mine: Path) -> None:
    """Unless somebody supervises it; what it went through stays."""
    mine.mkdir(parents=True)
    kept_out(mine, "GPU-z")
    lock = StatePaths(mine).lock("old")
    lock.parent.mkdir(parents=True)
    held = acquire(lock)
    assert held is not None
    refused = invoke("forget", "old")
    assert refused.exit_code == 1
    assert "old runs" in refused.output
    held.release()
    assert invoke("forget", "old").output == "old: forgotten\n"
    assert told("status") == []
    assert invoke("forget", "old").exit_code == 2
    assert told("quarantine")[0]["job"] == "old"


def test_a_daemon_that_is_gone(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its files tell is shown, and that nobody looks after them; where there has
    never been one, nobody misses it."""
    monkeypatch.setattr(daemon_client, "BOX_STATE", tmp_path / "box")
    mine.mkdir(parents=True)
    kept_out(mine, "GPU-z")
    files = StatePaths(mine).run("old", 1).attempt(1)
    files.root.mkdir(parents=True)
    with contextlib.closing(Ledger(StatePaths(mine).ledger)) as ledger:
        ledger.put_attempt(1, AttemptHistory(number=1, restored_step=0), now=1.0)
    files.output.write_text("printed\n")
    assert invoke("status").stderr == invoke("logs", "old").stderr == ""
    (mine / "daemon.lock").touch()
    for command, shown in (
        (("status",), "old · interrupted"),
        (("logs", "old"), "printed\n"),
        (("top", "--times", "1"), "1 jobs, no daemon runs"),
        (("top", "--json"), '"launcher": null'),
    ):
        done = invoke(*command)
        assert done.exit_code == 0
        assert shown in done.stdout
        assert done.stderr == f"no daemon runs in {mine}: its files tell\n"


def test_what_a_daemon_that_is_gone_has_not_begun(mine: Path) -> None:
    """Jobs that wait for their turn are not lost, and are shown after those that ran."""
    mine.mkdir(parents=True)
    kept_out(mine, "GPU-z")
    with contextlib.closing(Ledger(StatePaths(mine).ledger)) as ledger:
        book = JobBook(ledger)
        for name in ("old", "first", "second"):
            book.put(name, owner="alice", spec={}, source=None, now=1.0)
        book.want("second", WantedState.STOP)
    shown = [(one["job"], one["state"], one["attempt"]) for one in told("status")]
    assert shown == [
        ("old", "interrupted", 0), ("first", "queued", 0), ("second", "drained", 0)
    ]  # fmt: skip
    assert "waits for its daemon" in invoke("status").stdout


def test_what_was_begun_once_and_waits_again(mine: Path) -> None:
    """Somebody asked for another start, and no daemon was there any more; forgotten,
    it is not begun by the next."""
    mine.mkdir(parents=True)
    kept_out(mine, "GPU-z")
    with contextlib.closing(Ledger(StatePaths(mine).ledger)) as ledger:
        ledger.set_state(
            1, state=JobState.FINISHED, message="ok", overrides=None, ended_at=3.0
        )
        book = JobBook(ledger)
        for name in ("old", "new"):
            book.put(name, owner="alice", spec={}, source=None, now=1.0)
        assert [one["state"] for one in told("status")] == ["queued", "queued"]
        book.begun("old")
        assert [one["state"] for one in told("status")] == ["finished", "queued"]
        for name in ("old", "new"):
            assert told("forget", name)["job"] == name
        assert told("status") == book.jobs() == []
        assert invoke("forget", "new").exit_code == 2


@pytest.mark.usefixtures("daemon")
def test_what_has_ended_is_not_ended_again(tmp_path: Path) -> None:
    """It is said so, and what is suggested names the job."""
    finished(tmp_path)
    for verb in ("stop", "drain"):
        done = invoke(verb, "train")
        assert done.exit_code == 0
        said = "train: finished: it had ended before: there is nothing to end\n"
        assert done.stdout == said
    assert "start --fresh train`" in invoke("start", "train").stderr


@pytest.mark.usefixtures("daemon")
def test_top_in_a_pipe_is_not_cut(tmp_path: Path) -> None:
    """Nobody's terminal is 80 columns wide there."""
    finished(tmp_path)
    name = "a-rather-long-name-of-a-job-that-somebody-may-well-have-chosen"
    (tmp_path / "long.py").write_text("")
    assert invoke("submit", "--name", name, tmp_path / "long.py").exit_code == 0
    shown = invoke("top", "--times", "1").stdout
    assert name in shown
    assert "attempt" in shown
    assert "…" not in shown


def test_the_box_is_told_apart(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its service is down, its files tell who may read them; anybody else sees
    their own, and is told."""
    box = tmp_path / "box"
    monkeypatch.setattr(daemon_client, "BOX_STATE", box)
    monkeypatch.setattr(daemon_client, "BOX", tmp_path / "control.sock")
    box.mkdir()
    mine.mkdir(parents=True)
    (box / "daemon.lock").touch()
    done = invoke("status")
    assert done.stdout == f"no job has run in {mine} yet\n"
    assert "the daemon of this box does not run" in done.stderr
    kept_out(box, "GPU-z")
    assert told("status")[0]["job"] == "old"
    assert f"no daemon runs in {box}" in invoke("status").stderr
    assert told("quarantine", "--return", "GPU-z") == []
    assert daemon_client.client_of(box).path == tmp_path / "control.sock"


def test_who_may_ask(daemon: Daemon, tmp_path: Path) -> None:
    """One's own files, what is kept out of use; the rest is for who rules."""
    finished(tmp_path)
    kept_out(tmp_path / "state", "GPU-a")
    owner, files = user_name(os.geteuid()), "/v1/jobs/train/files"
    member, admin = "trainwarden", "trainwarden-admin"
    assert asked(daemon, owner, "GET", files, member).body["attempt"] == 1
    assert asked(daemon, "bob", "GET", files, member).status == 403
    assert asked(daemon, "eve", "GET", files).status == 403
    assert asked(daemon, "bob", "GET", "/v1/jobs/none/files", member).status == 404
    assert asked(daemon, "eve", "GET", "/v1/quarantine").status == 403
    assert len(asked(daemon, "bob", "GET", "/v1/quarantine", member).body) == 1
    back = "/v1/gpus/GPU-a/return"
    assert asked(daemon, "bob", "POST", back, member).status == 403
    assert asked(daemon, "bob", "GET", "/v1/ledger", member).status == 403
    assert asked(daemon, "ann", "GET", "/v1/ledger", admin).status == 200
    assert asked(daemon, "ann", "POST", back, admin).status == 200
    assert asked(daemon, "ann", "GET", "/v1/quarantine", admin).body == []
