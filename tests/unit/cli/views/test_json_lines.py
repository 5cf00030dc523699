"""Commands that tell one JSON object a line."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.commands.logs_command import MOST_OF_A_LINE, Lines
from supervisor.cli.views.console import LastingConsole
from supervisor.cli.views.json_lines import JsonView
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.text.log_level import LogLevel
from tests.support.command import Trainwarden


def objects(text: str) -> list[dict[str, Any]]:
    """One a line."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_log_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """However it comes in parts, each line is told once, with its attempt, and the last
    one also if it has no end."""
    lines = Lines()
    for content in (b"one\ntw", b"", b"o\n\n", b"\xff \x1b[1mdie"):
        lines.put(1, content)
    lines.put(2, b"again")
    lines.close()
    lines.close()
    assert objects(capsys.readouterr().out) == [
        {"attempt": 1, "text": "one"},
        {"attempt": 1, "text": "two"},
        {"attempt": 1, "text": ""},
        {"attempt": 1, "text": "\N{REPLACEMENT CHARACTER} \x1b[1mdie"},
        {"attempt": 2, "text": "again"},
    ]


def test_a_line_without_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """It is told in pieces: nothing grows with it."""
    lines = Lines()
    for _ in range(5):
        lines.put(1, b"x" * MOST_OF_A_LINE)
    lines.close()
    told = objects(capsys.readouterr().out)
    assert len(told) == 3
    assert sum(len(one["text"]) for one in told) == 5 * MOST_OF_A_LINE


def test_a_run_as_lines() -> None:
    """Nothing in it is changed on its way: neither brackets nor colons are markup. The
    same state is told now and then only, another one at once."""
    out = io.StringIO()
    running = JobStatus(job="digits", state=JobState.RUNNING, attempt=1, step=1)
    text = "[bold]:ok: a\tb\n" + "long " * 50
    with JsonView(LastingConsole(file=out, force_terminal=True)) as view:
        view.say(text, level=LogLevel.WARNING)
        view.show(running)
        view.show(replace(running, step=2))
        view.show(replace(running, attempt=2))
        view.finish(replace(running, state=JobState.FINISHED), [], code=0)
    told = objects(out.getvalue())
    assert [one["event"] for one in told] == ["said", "status", "status", "ended"]
    assert (told[0]["priority"], told[0]["text"]) == (4, text)
    assert [one["job"]["attempt"] for one in told[1:3]] == [1, 2]
    assert told[3]["job"]["state"] == "finished"
    assert (told[3]["code"], told[3]["incidents"]) == (0, [])


def test_a_run_that_gives_up(tmp_path: Path) -> None:
    """Every line is JSON; the last one says how it ended, and why."""
    trainwarden = Trainwarden(directory=tmp_path, state=tmp_path / "state")
    script = trainwarden.script("print('not ours'); {}['lr']")
    done = trainwarden("run", "--json", script)
    assert done.returncode == 1
    told = objects(done.stdout)
    assert {one["event"] for one in told} == {"said", "status", "ended"}
    assert (told[-1]["event"], told[-1]["code"]) == ("ended", 1)
    assert told[-1]["job"]["state"] == "gave_up"
    (incident,) = told[-1]["incidents"]
    assert incident["cause"] == "user_error"
