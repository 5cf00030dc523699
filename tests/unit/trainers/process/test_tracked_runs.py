"""Which run of a tracker is which, from one attempt to the next."""

from pathlib import Path

import pytest

from trainers.process.tracked_runs import TrackedRuns, label_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("net-20261125-230615", "net-20261126-070001"),
        ("net 2026-11-25 23:06:15.123456", "net 2026-11-26 07:00:01.5"),
        ("1795647972.049769", "1795648041.1"),
        (
            "try 7b1f6c2e-0f3a-4b5c-9d8e-112233445566",
            "try 0c9d8e7f-aaaa-4b5c-9d8e-665544332211",
        ),
        ("dc8f0a91-net", "7e1b22c0-net"),
    ],
)
def test_times_and_random_ids_do_not_count(one: str, other: str) -> None:
    """The script names the same run otherwise in each attempt."""
    assert label_of(["p", one]) == label_of(["p", other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fold-1", "fold-2"),
        ("seed 12345", "seed 54321"),
        ("decade", "facade"),
        (None, ""),
    ],
)
def test_other_names_are_other_runs(one: str | None, other: str) -> None:
    """Two of one script are not taken for each other."""
    assert label_of([one]) != label_of([other])


def test_they_are_known_to_the_next_attempt(tmp_path: Path) -> None:
    """By tracker, label and number; one that is begun anew takes the place of the old."""
    path = tmp_path / "trackers.json"
    first = TrackedRuns(path)
    assert first.earlier("wandb", "a", 0) is None
    first.remember("wandb", "a", 0, "one")
    first.remember("wandb", "a", 1, "two")
    first.remember("mlflow", "a", 0, "three")
    second = TrackedRuns(path)
    second.remember("wandb", "a", 0, "anew")
    third = TrackedRuns(path)
    assert third.earlier("wandb", "a", 0) == "anew"
    assert third.earlier("wandb", "a", 1) == "two"
    assert third.earlier("mlflow", "a", 0) == "three"
    assert third.earlier("wandb", "b", 0) is None


@pytest.mark.parametrize("content", ["", "[]", '{"wandb": 1}', '{"wandb": {"a": 1}}'])
def test_a_damaged_file_says_nothing(tmp_path: Path, content: str) -> None:
    """Runs begin anew then."""
    path = tmp_path / "trackers.json"
    path.write_text(content)
    assert TrackedRuns(path).earlier("wandb", "a", 0) is None


def test_a_full_disk_ends_no_script(tmp_path: Path) -> None:
    """It costs the next attempt its run."""
    runs = TrackedRuns(tmp_path / "nowhere" / "trackers.json")
    runs.remember("wandb", "a", 0, "one")
    assert runs.earlier("wandb", "a", 0) == "one"
