"""Bytes that are cut off a file are on disk beside it before it is cut."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainers.files import kept_bytes
from trainers.files.kept_bytes import LeftError

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with something in it, as private as logs may be."""
    made = tmp_path / "train.log"
    made.write_bytes(CONTENT)
    made.chmod(0o600)
    return made


def test_a_cut_loses_no_byte(path: Path) -> None:
    """File and copy together hold what the file held; the copy is as private, and the
    file is the same one, for whoever has it open."""
    before, kept = path.stat(), path.with_name("kept")
    kept_bytes.cut(path, 1000, kept)
    assert path.read_bytes() + kept.read_bytes() == CONTENT
    assert (path.stat().st_ino, kept.stat().st_mode) == (before.st_ino, before.st_mode)
    assert path.stat().st_size == 1000


def test_a_copy_never_takes_the_place_of_a_file(path: Path) -> None:
    """Whoever made it: then nothing is cut."""
    kept = path.with_name("kept")
    kept.write_text("the user's own")
    with pytest.raises(FileExistsError):
        kept_bytes.cut(path, 1000, kept)
    assert (path.read_bytes(), kept.read_text()) == (CONTENT, "the user's own")
    assert kept_bytes.free(kept).name == "kept-2"


FULL = """
import resource, signal, sys
from pathlib import Path
from trainers.files import kept_bytes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
path = Path(sys.argv[1])
try:
    if sys.argv[2] == "cut":
        kept_bytes.cut(path, 1000, path.with_name("kept"))
    else:
        kept_bytes.replace(path, bytes(20000), 20000)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.parametrize("what", ["cut", "replace"])
def test_where_there_is_no_room_nothing_is_touched(path: Path, what: str) -> None:
    """A write that fails half-way (here by a limit of the process, as on a full disk)
    leaves the file whole, and no half of a copy."""
    done = subprocess.run([sys.executable, "-c", FULL, path, what], check=False)
    assert done.returncode == errno.EFBIG
    assert path.read_bytes() == CONTENT
    assert [one.name for one in path.parent.iterdir()] == [path.name]


KILLED = """
import os, signal, sys
from pathlib import Path
from trainers.files import kept_bytes
left = int(sys.argv[3])
def count(frame, event, argument):
    global left
    if event == "c_call" and argument.__module__ in ("posix", None):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
path = Path(sys.argv[1])
kept = kept_bytes.free(path.with_name("kept"))
side = path.with_name("side")
sys.setprofile(count)
if sys.argv[2] == "cut":
    kept_bytes.cut(path, 1000, kept)
else:
    kept_bytes.copy_of(path, kept)
    kept_bytes.replace(path, side, side.stat().st_size)
"""


@pytest.mark.parametrize("what", ["cut", "replace"])
def test_a_kill_at_any_place_loses_no_byte(path: Path, what: str) -> None:
    """Before each call of the kernel in turn; and the next attempt can do it again."""
    side, code, calls = path.with_name("side"), -signal.SIGKILL, 0
    side.write_bytes(b"what it was " * 3000)
    while code == -signal.SIGKILL:
        arguments = [sys.executable, "-c", KILLED, str(path), what, str(calls)]
        code, calls = subprocess.run(arguments, check=False).returncode, calls + 1
        kept = [one.read_bytes() for one in path.parent.glob("kept*")]
        held = path.read_bytes()
        if what == "cut":
            assert held == CONTENT or any(held + one == CONTENT for one in kept)
        else:
            assert held == CONTENT or CONTENT in kept
            assert side.stat().st_size == 36000
    assert code == 0
    assert calls > 8
    if what == "replace":
        assert path.read_bytes() == side.read_bytes()


def test_a_file_that_is_written_right_now_is_left(path: Path) -> None:
    """What came while it was copied is in no copy."""
    kept = path.with_name("kept")

    def late(event: str, details: tuple[object, ...]) -> None:
        if event == "open" and str(details[0]) == str(kept):
            with path.open("ab") as file:
                file.write(b"more")

    child = os.fork()
    if not child:  # a hook cannot be taken back
        sys.addaudithook(late)
        try:
            kept_bytes.cut(path, 1000, kept)
        except LeftError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.read_bytes() == CONTENT + b"more"
    assert not kept.exists()


def test_links_and_files_of_others_are_left(path: Path) -> None:
    """A second name may be somebody's backup."""
    assert kept_bytes.why_not_ours(path) is None
    link = path.with_name("link")
    link.symlink_to(path)
    assert "link" in str(kept_bytes.why_not_ours(link))
    path.with_name("second").hardlink_to(path)
    assert "second name" in str(kept_bytes.why_not_ours(path))


def test_a_directory_that_cannot_be_written_to(path: Path) -> None:
    """The file is left as it is."""
    kept = path.parent / "missing" / "kept"
    with pytest.raises(OSError, match="missing"):
        kept_bytes.cut(path, 1000, kept)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", True), (CONTENT[:7], True), (CONTENT, True), (CONTENT + b"x", False)],
)
def test_what_a_file_begins_with(path: Path, content: bytes, expected: bool) -> None:  # noqa: FBT001
    """All of the other, byte for byte."""
    other = path.with_name("other")
    other.write_bytes(content)
    assert kept_bytes.begins_with(path, other) is expected


def test_a_missing_file_is_made_again(tmp_path: Path) -> None:
    """With the directory that it was in."""
    path = tmp_path / "out" / "runs" / "status.json"
    kept_bytes.replace(path, b"{}", 2)
    assert path.read_bytes() == b"{}"
