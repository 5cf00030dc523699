"""Runs as ``history`` lists them."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from supervisor.cli.commands.history_command import history, history_json, row_of
from supervisor.core.causes import Cause
from supervisor.core.jobs.accounting.run_summary import RunSummary
from supervisor.core.jobs.job_status import JobState
from supervisor.host.ledger.ledger import Ledger

RUN = RunSummary(
    job="digits",
    run=1,
    user=None,
    state=JobState.GAVE_UP,
    began_at="2026-01-31T12:00:00+00:00",
    ended_at=None,
    elapsed_seconds=600.0,
    attempts=3,
    attempt_seconds=500.0,
    exit_code=1,
    cause=Cause.NON_FINITE_LOSS,
    incidents=0,
    steps=9,
    device_peak_bytes=None,
    device_limit_bytes=None,
    host_peak_bytes=None,
    gpus=None,
    gpu_seconds=None,
    lost_steps=0,
    downtime_seconds=0.0,
)


def test_no_gpu_and_an_unknown_one_look_alike() -> None:
    """A dash: the column has no second word for it. ``--json`` tells them apart."""
    used = row_of(replace(RUN, gpus=1, gpu_seconds=60.0))
    (column,) = [at for at, cell in enumerate(used) if cell == "1 min 00 s"]
    assert row_of(replace(RUN, gpus=0, gpu_seconds=0.0))[column] == "-"
    assert row_of(replace(RUN, gpus=None, gpu_seconds=None))[column] == "-"


def test_a_state_is_told_in_words() -> None:
    """A script is given the value that does not change."""
    assert f"gave up ({RUN.cause})" in row_of(RUN)
    assert "gave up" in row_of(replace(RUN, exit_code=None))
    assert history_json(RUN)["state"] == "gave_up"


def test_a_line_in_a_pipe_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A width is a terminal's: what reads a pipe reads lines."""
    monkeypatch.setenv("COLUMNS", "40")
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.begin_run(
            run_id="r", job="a-job-of-a-name-that-is-long", script="/a/train.py",
            script_hash="1", seed=1, spec={"script": "train.py"}, now=1.0,
        )  # fmt: skip
    done = CliRunner().invoke(history, ["--state-dir", str(tmp_path)])
    head, row = done.output.splitlines()
    assert (head.split()[0], head.split()[-1]) == ("job", "lost")
    assert row.startswith("a-job-of-a-name-that-is-long")
    assert "…" not in row
