"""What an attempt does about modules that changed since the run began."""

import shutil
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.reasons import Changed, RefusalReason
from supervisor.wire.snapshots.seal import script_hash
from tests.support.attempts import AttemptOutcome, Attempts
from trainers.process.script.pinned_modules import Finder, PinnedCopies

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


def withdrawn(outcome: AttemptOutcome) -> list[str]:
    """Why it promised no bits of the whole run."""
    promises = outcome.of(RecordKind.PROMISE)
    assert all(one["bits"] is False and one["fit"] is None for one in promises)
    return [one["sentence"] for one in promises]


def test_changes_that_were_accepted_are_what_is_kept(project: Project) -> None:
    """And they end the promise of bits, once for each: what was saved was made with what
    they were. Who restarts it in the night has accepted nothing."""
    project.write("now")
    accepted = project.run(Changed.AS_IT_IS)
    assert accepted.out == "now now True\nTrue True\n", accepted.err
    first, second = withdrawn(accepted)
    assert "part.py, which the script imports, was changed in the middle" in first
    assert "deep.py" in second
    assert told(accepted) == []
    project.write("later")
    later = project.run()
    assert later.out == "now now True\nTrue True\n"
    assert withdrawn(later) == []


def test_changes_that_nothing_saved_contradicts_are_told(project: Project) -> None:
    """The run begins with them, as a new one would: its promise stays."""
    project.write("now")
    begun = project.run(Changed.NOTHING_SAVED)
    assert begun.out == "now now True\nTrue True\n", begun.err
    assert len(told(begun)) == 2
    assert withdrawn(begun) == []


def test_the_promise_ends_before_the_new_text_is_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that cannot be written down (or the machine goes down), it is said all the same."""
    project.write("now")
    order: list[str] = []

    def withdraw(because: str) -> None:
        order.append(because)

    def keep(_self: PinnedCopies, path: Path, _content: bytes) -> None:
        order.append(f"kept {path.name}")
        raise OSError

    monkeypatch.setattr(PinnedCopies, "keep", keep)
    copies = PinnedCopies(project.attempts.directory / "run" / "modules")
    finder = Finder(
        copies, Changed.AS_IT_IS, tell=order.append, withdraw=withdraw, refuse=_refuse
    )
    assert finder.find_spec("part", [str(project.attempts.directory)]) is not None
    assert ["part.py, which" in one for one in order] == [True, False]
    assert order[1] == "kept part.py"


def _refuse(_reason: RefusalReason, sentence: str) -> None:
    raise AssertionError(sentence)


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
    """Power was lost while it was written: the file counts, and where that is another one
    by now, bits are not promised."""
    for copy in (project.attempts.directory / "run" / "modules").iterdir():
        copy.write_bytes(b"")
    same = project.run()
    assert (same.out, withdrawn(same)) == ("then then True\nFalse True\n", [])
    for copy in (project.attempts.directory / "run" / "modules").iterdir():
        copy.write_bytes(b"")
    project.write("now")
    lost = project.run()
    assert lost.out == "now now True\nTrue True\n"
    assert "what it was then is no longer kept" in withdrawn(lost)[0]


def test_a_script_that_could_not_be_kept_ends_the_promise(project: Project) -> None:
    """It was edited since: a restart runs what there is, which nobody accepted."""
    begun = script_hash(b"what the run began with", ())
    lost = project.attempts.run(project.script, script_hash=begun)
    assert lost.out.startswith("then then"), lost.err
    assert "what it was then could not be kept" in withdrawn(lost)[0]
