"""What an attempt does about modules that changed since the run began."""

import shutil
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.reasons import Changed, RefusalReason
from tests.support.attempts import AttemptOutcome, Attempts

SCRIPT = """
import importlib, inspect, sys
import part, pack.deep
importlib.reload(part)
print(part.said(), pack.deep.said(), part.__file__ == inspect.getfile(part.said))
print("now" in inspect.getsource(part), part.__spec__.cached is not None)
"""
MODULE = "def said():\n    return {!r}\n"


class Project:
    """A script with a module beside it and one in a package."""

    def __init__(self, directory: Path) -> None:
        options = {"kept_script": str(directory / "run" / "script")}
        self.attempts = Attempts(directory, options)
        self.script = self.attempts.script(SCRIPT)
        self.modules = [directory / "part.py", directory / "pack" / "deep.py"]
        self.modules[1].parent.mkdir()
        (self.modules[1].parent / "__init__.py").touch()
        self.write("then")

    def write(self, said: str) -> None:
        """Edit both."""
        for module in self.modules:
            module.write_text(MODULE.format(said))

    def run(self, rule: Changed = Changed.AS_KEPT) -> AttemptOutcome:
        """The next attempt."""
        return self.attempts.run(self.script, changed_modules=rule)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """That ran once."""
    made = Project(tmp_path)
    first = made.run()
    assert first.out == "then then True\nFalse True\n", first.err
    assert first.of(RecordKind.NOTICE) == []
    return made


def told(outcome: AttemptOutcome) -> list[str]:
    """Its notices."""
    return [fields["sentence"] for fields in outcome.of(RecordKind.NOTICE)]


def test_a_restart_in_the_night_imports_what_it_did(project: Project) -> None:
    """Edited, with compiled code of the new one beside it, or gone; also reloaded."""
    project.write("now")
    before = "then then True\nFalse True\n"
    edited = project.run()
    assert edited.out == before, edited.err
    assert sum("deep.py was changed after" in one for one in told(edited)) == 1
    shutil.rmtree(project.modules[1].parent)
    project.modules[0].unlink()
    gone = project.run()
    assert gone.out == before, gone.err


def test_changes_that_were_accepted_are_what_is_kept(project: Project) -> None:
    """And that is told once for each."""
    project.write("now")
    accepted = project.run(Changed.AS_IT_IS)
    assert accepted.out == "now now True\nTrue True\n", accepted.err
    assert len(told(accepted)) == 2
    project.write("later")
    assert project.run().out == "now now True\nTrue True\n"


def test_a_person_is_asked(project: Project) -> None:
    """Before anything is trained."""
    project.write("now")
    outcome = project.run(Changed.REFUSED)
    assert outcome.code == EXIT_REFUSED
    assert "part.py, which the script imports, was changed" in outcome.err
    (refused,) = outcome.of(RecordKind.REFUSED)
    assert refused["reason"] == RefusalReason.MODULE_CHANGED
    assert "--accept-changes" in refused["sentence"]


def test_a_copy_that_is_no_longer_whole_is_none(project: Project) -> None:
    """Power was lost while it was written: the file counts."""
    for copy in (project.attempts.directory / "run" / "modules").iterdir():
        copy.write_bytes(b"")
    project.write("now")
    assert project.run().out == "now now True\nTrue True\n"
