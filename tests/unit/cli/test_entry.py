"""Another distribution with our top-level package is told."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.cli import entry
from supervisor.cli.entry import conflicting_distribution

ROOT = Path(__file__).parents[3]


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


def begin(*, ahead: Path) -> str:
    """What the command says, in one line, with ``ahead`` first on the path."""
    told = subprocess.run(
        [sys.executable, "-c", "from supervisor.cli.entry import main; main()"],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ahead)},
        cwd=ahead,
        timeout=60,
    )
    assert told.returncode == 2
    (line,) = told.stderr.splitlines()
    return line


def test_it_is_told_before_anything_else(tmp_path: Path) -> None:
    """With PyPI's supervisor installed the command says so and ends with 2."""
    site = tmp_path / "supervisor-4.3.0.dist-info"
    site.mkdir()
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: supervisor\n")
    assert "the distribution 'supervisor' is installed" in begin(ahead=tmp_path)


def test_what_its_removal_leaves_is_told(tmp_path: Path) -> None:
    """Without our own ``supervisor/__init__.py`` the command says what to do."""
    left = tmp_path / "supervisor"
    shutil.copytree(ROOT / "supervisor", left)
    (left / "__init__.py").write_text("")
    assert "files of trainwarden are missing" in begin(ahead=tmp_path)


def test_ctrl_c_while_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One word, and the exit code of shells: no traceback of ours."""

    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
