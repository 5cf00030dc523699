"""Compilations of an attempt: whatever goes wrong with them, training goes on."""

import time
from pathlib import Path

import pytest
from typing_extensions import override

from supervisor.wire.event_file import EventReader, RecordKind
from tests.support.attempts import Attempts
from trainers.process.attempt_reporting import Attempt
from trainers.process.compilations import kept_compilations
from trainers.process.compilations.compilation_store import DOUBTED, SUFFIX
from trainers.process.compilations.kept_compilations import (
    CHANGED,
    DROPPED,
    NOT_KEPT,
    SLOW,
    USED,
    KeptCompilations,
)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """One that was started a moment ago."""
    directive = Attempts(tmp_path, {"compilation_quota_bytes": 1 << 20}).directive(
        tmp_path / "train.py"
    )
    Path(directive.attempt_directory).mkdir(parents=True)
    return Attempt(directive)


GONE = " is gone; no such file"


class Compiled:
    """The files of a framework, in a directory."""

    def __init__(self, place: Path, *, room_bytes: int | None = None) -> None:
        """Make it."""
        place.mkdir()
        self.place = place
        self.deterministic = False
        self._room_bytes = room_bytes

    def room_bytes(self) -> int | None:
        """As it was given."""
        return self._room_bytes

    def settings(self) -> list[str]:
        """One."""
        return [f"determinism={self.deterministic}"]

    def names(self) -> list[str]:
        """Sorted."""
        return sorted(path.name for path in self.place.iterdir())

    def read(self, name: str) -> bytes | None:
        """As it lies there."""
        return (self.place / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Plainly."""
        (self.place / name).write_bytes(content)

    def clear(self) -> None:
        """All."""
        for path in self.place.iterdir():
            path.unlink()


class Failing(Compiled):
    """One whose reads raise what is no OSError, as TensorFlow's do."""

    @override
    def read(self, name: str) -> bytes | None:
        """Raises."""
        raise RuntimeError(name + GONE + "\nand so on")

    @override
    def write(self, name: str, content: bytes) -> None:
        """Raises when it is half done."""
        super().write(name, content[:1])
        raise MemoryError


class Slow(Compiled):
    """One that takes its time."""

    @override
    def read(self, name: str) -> bytes | None:
        """Longer than anybody waits here."""
        time.sleep(3)
        return super().read(name)


def told(attempt: Attempt) -> list[str]:
    """The notices of the attempt."""
    records = EventReader(attempt.paths.events).poll()
    return [one.fields["sentence"] for one in records if one.kind == RecordKind.NOTICE]


def entries(tmp_path: Path) -> list[Path]:
    """What is kept."""
    return list((tmp_path / "kept").glob(f"*/*{SUFFIX}"))


def kept_in(tmp_path: Path, attempt: Attempt, **environment: str) -> KeptCompilations:
    """Those of the attempt."""
    return KeptCompilations(attempt, environment, str(tmp_path / "kept"))


def compiled_before(tmp_path: Path, attempt: Attempt) -> None:
    """An earlier attempt left two compilations."""
    files = Compiled(tmp_path / "before")
    kept = kept_in(tmp_path, attempt)
    assert kept.begin("framework", files)
    files.write("step", b"step")
    files.write("test", b"test")
    kept.ended()
    assert len(entries(tmp_path)) == 2


def test_a_script_without_a_framework_leaves_nothing(
    attempt: Attempt, tmp_path: Path
) -> None:
    """No directory, no word."""
    kept_in(tmp_path, attempt).ended()
    assert not (tmp_path / "kept").exists()
    assert told(attempt) == []


def test_what_was_compiled_last_is_kept_at_the_end(
    attempt: Attempt, tmp_path: Path
) -> None:
    """And found again; the end is a proof of it."""
    compiled_before(tmp_path, attempt)
    files = Compiled(tmp_path / "files")
    kept = kept_in(tmp_path, attempt)
    kept.begin("framework", files)
    assert files.names() == ["step", "test"]
    assert list((tmp_path / "kept").glob(f"*/{DOUBTED}"))
    kept.ended()
    assert not list((tmp_path / "kept").glob(f"*/{DOUBTED}"))
    assert told(attempt) == [USED.format(count=2)]


def test_two_frameworks_and_a_thread_do_not_meet(
    attempt: Attempt, tmp_path: Path
) -> None:
    """What is in flight of one is not cleared away by the other, which begins."""
    kept = kept_in(tmp_path, attempt)
    first = Compiled(tmp_path / "first")
    kept.begin("first", first)
    for count in range(40):
        first.write(str(count), bytes(1000))
        if count % 10 == 0:
            time.sleep(0.3)
            kept.begin(f"other{count}", Compiled(tmp_path / f"other{count}"))
    kept.ended()
    assert len(entries(tmp_path)) == 40
    assert told(attempt) == []


def test_errors_that_are_none_of_the_disk_end_nothing(
    attempt: Attempt, tmp_path: Path
) -> None:
    """Neither the thread, nor the script's end: it is said once."""
    kept = kept_in(tmp_path, attempt)
    files = Failing(tmp_path / "files")
    kept.begin("framework", files)
    Compiled.write(files, "new", b"code")
    kept.ended()
    assert told(attempt) == [NOT_KEPT.format("new" + GONE)]


def test_files_that_are_gone_end_nothing(attempt: Attempt, tmp_path: Path) -> None:
    """Nor does a directory that somebody removed."""
    kept = kept_in(tmp_path, attempt)
    files = Compiled(tmp_path / "files")
    kept.begin("framework", files)
    files.place.rmdir()
    kept.ended()
    assert told(attempt) == [NOT_KEPT.format("No such file or directory")]


def test_what_cannot_be_loaded_is_not_gone_by(attempt: Attempt, tmp_path: Path) -> None:
    """Half of it is taken away again; the next attempt finds all of it."""
    compiled_before(tmp_path, attempt)
    files = Failing(tmp_path / "files")
    kept = kept_in(tmp_path, attempt)
    assert kept.begin("framework", files) is None
    kept.ended()
    assert files.names() == []
    assert told(attempt) == [NOT_KEPT.format("MemoryError")]
    again = Compiled(tmp_path / "again")
    kept_in(tmp_path, attempt).begin("framework", again)
    assert again.names() == ["step", "test"]


def test_a_disk_that_hangs_does_not_hold_up_the_end(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than a while, that is; it is said."""
    monkeypatch.setattr(kept_compilations, "LAST_SECONDS", 0.01)
    files = Slow(tmp_path / "files")
    kept = kept_in(tmp_path, attempt)
    kept.begin("framework", files)
    files.write("new", b"code")
    kept.ended()
    assert told(attempt) == [NOT_KEPT.format(SLOW.format(0.01))]


def test_no_more_is_loaded_than_there_is_room_for(
    attempt: Attempt, tmp_path: Path
) -> None:
    """A framework knows how much there is."""
    compiled_before(tmp_path, attempt)
    files = Compiled(tmp_path / "files", room_bytes=150)
    kept_in(tmp_path, attempt).begin("framework", files)
    assert len(files.names()) == 1


@pytest.mark.parametrize("changed", ["environment", "determinism"])
def test_settings_that_change_after_the_first_trace(
    attempt: Attempt, tmp_path: Path, changed: str
) -> None:
    """What was compiled before is not found any more, nothing is kept, and it is said."""
    environment = {"XLA_FLAGS": "--before"}
    kept = KeptCompilations(attempt, environment, str(tmp_path / "kept"))
    first = Compiled(tmp_path / "first")
    kept.traces(first)
    first.write("step", b"code")
    kept.ended()
    files = Compiled(tmp_path / "files")
    later = KeptCompilations(attempt, environment, str(tmp_path / "kept"))
    later.traces(files)
    assert files.names() == ["step"]
    if changed == "environment":
        environment["XLA_FLAGS"] = "--after"
    else:
        files.deterministic = True
    later.traces(files)
    assert files.names() == []
    files.write("other", b"other")
    later.ended()
    assert len(entries(tmp_path)) == 1
    assert told(attempt) == [USED.format(count=1), NOT_KEPT.format(CHANGED)]


def test_settings_before_the_first_trace_are_part_of_the_key(
    attempt: Attempt, tmp_path: Path
) -> None:
    """Whenever the script, or a module that it imports, has made them."""
    for count, deterministic in enumerate([False, True, False]):
        files = Compiled(tmp_path / str(count))
        files.deterministic = deterministic
        kept = kept_in(tmp_path, attempt)
        kept.traces(files)
        assert len(files.names()) == (count == 2)
        files.write("step", b"code")
        kept.ended()


def test_steps_of_a_loop_of_ones_own_are_a_proof(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that dies after them leaves what it went by to the next."""
    monkeypatch.setattr(kept_compilations, "LOOK_SECONDS", 0.01)
    compiled_before(tmp_path, attempt)
    (doubted,) = {path.parent / DOUBTED for path in entries(tmp_path)}
    kept_in(tmp_path, attempt).begin("framework", Compiled(tmp_path / "files"))
    assert doubted.exists()
    attempt.count_own_step(seconds=0.1, steps=1, done=1)
    until = time.monotonic() + 60
    while doubted.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not doubted.exists()


def test_without_a_step_they_are_dropped(attempt: Attempt, tmp_path: Path) -> None:
    """The next attempt says so, and compiles anew."""
    compiled_before(tmp_path, attempt)
    kept_in(tmp_path, attempt).begin("framework", Compiled(tmp_path / "files"))
    after = Compiled(tmp_path / "after")
    kept_in(tmp_path, attempt).begin("framework", after)
    assert after.names() == []
    assert told(attempt)[-1] == DROPPED
