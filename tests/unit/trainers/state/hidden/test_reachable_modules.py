"""Modules of the script's own that a function comes to by the names that it uses."""

import importlib
from pathlib import Path

import pytest

from tests.support.hidden_scripts import network
from trainers.state.hidden.reachable import reachable

PACKAGE = {
    "__init__.py": "from round_about import counts, steps\n",
    "counts.py": "import round_about.steps\nseen = []\n",
    "steps.py": """
import round_about.counts

def step():
    round_about.counts.seen.append(round_about.steps.step)
""",
}
"""A package whose modules import each other, as packages do."""


def test_modules_that_lead_to_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran round and round in them until Python's stack was full: what training changes
    could not be looked at then, and the promise was withdrawn."""
    place = tmp_path / "round_about"
    place.mkdir()
    for name, text in PACKAGE.items():
        (place / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    steps = importlib.import_module("round_about.steps")
    found = reachable(network(), (), [("step", steps.step)])
    assert "seen" in found.owners["round_about.counts"].names
