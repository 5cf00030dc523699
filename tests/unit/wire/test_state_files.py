"""Files in a directory that may be another user's: what is opened there, and what is not."""

import errno
import os
from pathlib import Path

import pytest

from supervisor.wire import files
from supervisor.wire.files import open_directory, open_regular, read_json

NOBODY = 65534


@pytest.fixture(params=["openat2", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel's own call, and as where it is not known."""
    if request.param == "walk":

        def unknown(path: Path) -> int:
            raise OSError(errno.ENOSYS, "no such call", str(path))

        monkeypatch.setattr(files, "_open_without_links", unknown)


@pytest.mark.usefixtures("way")
def test_no_link_lies_on_the_way(tmp_path: Path) -> None:
    """Neither the file, nor its directory, nor one above it; where links are allowed, only
    the file must be none."""
    place = tmp_path / "jobs" / "one"
    place.mkdir(parents=True)
    (place / "exit.json").write_text("{}")
    assert read_json(place / "exit.json") == {}
    for link, to in (("jobs/two", place), ("elsewhere", place.parent)):
        (tmp_path / link).symlink_to(to)
    (place / "linked.json").symlink_to(place / "exit.json")
    for path in ("jobs/two/exit.json", "elsewhere/one/exit.json"):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            open_regular(tmp_path / path)
        open_regular(tmp_path / path, links=True).close()
    for links in (False, True):
        with pytest.raises(OSError, match="symbolic links"):
            open_regular(place / "linked.json", links=links)
    with pytest.raises(FileNotFoundError):
        open_regular(place / "nothing")


@pytest.mark.usefixtures("way")
def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere else, from the working directory."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_text("x")
    monkeypatch.chdir(tmp_path)
    with open_regular(Path("below/file")) as file:
        assert file.read() == b"x"
    os.close(open_directory(Path(), links=False))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_is_not_of_its_directory_s_owner(tmp_path: Path) -> None:
    """Another user may have linked (hard) what they may not read, or laid a trap."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "mine").write_text("x")
    (theirs / "own").write_text("x")
    os.chown(theirs, NOBODY, NOBODY)
    os.chown(theirs / "own", NOBODY, NOBODY)
    open_regular(theirs / "own").close()
    with pytest.raises(OSError, match="belongs to somebody else"):
        open_regular(theirs / "mine")
