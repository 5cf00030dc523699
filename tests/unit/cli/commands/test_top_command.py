"""The live table, as text."""

from rich.console import Console

from supervisor.cli.commands.top_command import table_of
from supervisor.cli.views.top.gauges import KEPT, RecentSamples, sparkline


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
