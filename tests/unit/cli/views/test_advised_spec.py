"""The file that ``advise --apply`` leaves."""

import tomllib
from pathlib import Path

import pytest

from supervisor.cli.views.advised_spec import HEADING, place_of, write
from supervisor.core.memory.alternatives import ON, Alternative, AlternativeAxis
from tests.support.advice import advice, measured

JIT = Alternative(axis=AlternativeAxis.JIT, value=ON)
FOUND = advice(measured(), measured(JIT, ratio=0.5))
TABLES = {"script": "train.py", "environment": {"TOKEN": "secret"}}
NAME = "train.advised.toml"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of who calls the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_in(directory: Path) -> list[str]:
    """What stands there."""
    return [one.name for one in directory.iterdir()]


@pytest.mark.parametrize("before", [None, f"{HEADING}: something else"])
def test_it_is_for_its_owner_alone(here: Path, before: str | None) -> None:
    """A spec may hold secrets in its environment; also where an older file was for all."""
    if before is not None:
        (here / NAME).write_text(before)
        (here / NAME).chmod(0o644)
    done = write(place_of("train"), TABLES, FOUND)
    assert done.path is not None
    assert done.path.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(done.path.read_text())["compute"] == {"jit": True}
    assert names_in(here) == [NAME]


def test_a_file_that_came_there_meanwhile_is_left_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trials take minutes: who looked before them knows nothing."""
    place = place_of("train")
    (here / NAME).write_text("# of somebody's")
    with pytest.raises(SystemExit):
        write(place, TABLES, FOUND)
    assert "not written by advise" in capsys.readouterr().err
    assert (here / NAME).read_text() == "# of somebody's"
    assert names_in(here) == [NAME]


@pytest.mark.parametrize("dangling", [True, False])
def test_nothing_is_written_through_a_link(
    here: Path, tmp_path_factory: pytest.TempPathFactory, *, dangling: bool
) -> None:
    """Whether it leads to a file or not, before the trials and after them."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "file"
    if not dangling:
        elsewhere.write_text(HEADING)
    place = place_of("train")
    (here / NAME).symlink_to(elsewhere)
    with pytest.raises(SystemExit):
        place_of("train")
    with pytest.raises(SystemExit):
        write(place, TABLES, FOUND)
    assert elsewhere.exists() is not dangling
    assert names_in(here) == [NAME]
