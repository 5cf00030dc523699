"""Another distribution with our top-level package is told."""

import pytest

from supervisor.cli.collision import conflicting_distribution


@pytest.mark.parametrize("name", ["supervisor", "Supervisor"])
def test_the_other_supervisor_is_told(name: str) -> None:
    """PyPI's supervisor beside us is named, with what to do about it."""
    sentence = conflicting_distribution(["pip", name, "trainwarden"])
    assert sentence is not None
    assert "'supervisor' is installed" in sentence
    assert "virtual environment" in sentence


@pytest.mark.parametrize(
    "name", ["supervisor-stdout", "trainwarden", "", "supervisors"]
)
def test_other_names_are_fine(name: str) -> None:
    """Only the distribution of exactly that name is in the way."""
    assert conflicting_distribution(["pip", name]) is None
