"""The live table, as text."""

import os
from contextlib import closing
from pathlib import Path

from rich.console import Console

from supervisor.cli.commands.top_command import look, table_of
from supervisor.cli.sources.box_source import BoxSource
from supervisor.cli.views.top.gauges import KEPT, RecentSamples, sparkline
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.service.user_name import user_name


def test_sparklines() -> None:
    """The lowest and the highest value are the ends; a flat line is flat."""
    assert sparkline([]) == ""
    assert sparkline([1, 2, 3]) == "▁▅█"
    assert sparkline([7, 7]) == "▁▁"


def test_a_table_of_jobs() -> None:
    """What is not known is left empty; readings add up to a line."""
    running = {
        "job": "digits", "owner": "alice", "state": "running", "attempt": 2, "epoch": 0,
        "epochs": 4, "step": 7, "loss": 0.25, "step_seconds": 0.012,
        "memory_in_use_bytes": 1 << 20,
    }  # fmt: skip
    queued = {"job": "later", "owner": "bob", "state": "gave_up", "attempt": 0}
    gpus = [{"gpu": "GPU-1", "job": "digits"}, {"gpu": "GPU-2", "job": None}]
    box = {
        "jobs": [running, queued], "gpus": gpus, "paused_by": "root", "launcher": "l",
    }  # fmt: skip
    history = RecentSamples()
    console = Console(width=120, record=True)
    for _ in range(KEPT + 5):
        table_of(box, history)
    console.print(table_of(box, history))
    said = console.export_text()
    assert "2 jobs, 1 of 2 GPUs held, paused by root" in said
    assert "digits" in said
    assert "1/4" in said
    assert "gave up" in said
    assert "12 ms ▁" in said
    assert len(history.memory["digits"]) == KEPT
    assert "None" not in said


def test_whose_a_run_of_the_foreground_is(tmp_path: Path) -> None:
    """Who began it, as ``history`` has it: no daemon has to tell."""
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.begin_run(
            run_id="r", job="train", script="/a/train.py", script_hash="1", seed=1,
            spec={"script": "train.py"}, now=1.0,
        )  # fmt: skip
        (run,) = RunArchive(ledger).runs()
    (job,) = look(tmp_path)["jobs"]
    assert job["owner"] == run.user == user_name(os.geteuid())
    (same,) = BoxSource(client=None, where=tmp_path).box()["jobs"]
    assert same["owner"] == job["owner"]
    # Of a status it is what tells a daemon's job from others.
    assert "owner" not in BoxSource(client=None, where=tmp_path).job("train")
