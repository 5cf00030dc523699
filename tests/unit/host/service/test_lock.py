"""The lock of a job: what may stand in its place, and who is told to hold it."""

import os
from pathlib import Path

import pytest

from supervisor.host.service.lock import acquire, holder, holds, is_locked
from supervisor.host.service.termination_mask import takes_termination


def test_who_supervises_is_told(tmp_path: Path) -> None:
    """And who only needs that nobody does is not."""
    path = tmp_path / "lock"
    held = acquire(path)
    assert held is not None
    assert (is_locked(path), holder(path)) == (True, os.getpid())
    assert holds(os.getpid(), path)
    held.release()
    assert not is_locked(path)
    passing = acquire(path, supervises=False)
    assert passing is not None
    assert (is_locked(path), holder(path)) == (True, None)
    passing.release()


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    """Neither looked through, nor written through: it may lead to anybody's file."""
    held = acquire(tmp_path / "other.pid")
    assert held is not None
    link = tmp_path / "lock"
    link.symlink_to(tmp_path / "other.pid")
    assert not is_locked(link)
    assert holder(link) is None
    assert not holds(os.getpid(), link)
    held.release()
    with pytest.raises(OSError, match="symbolic link"):
        acquire(link)
    assert (tmp_path / "other.pid").read_text() == f"{os.getpid()}\n"


def test_a_pipe_keeps_nobody(tmp_path: Path) -> None:
    """Who opens one waits for a writer."""
    os.mkfifo(tmp_path / "lock")
    assert not is_locked(tmp_path / "lock")
    assert holder(tmp_path / "lock") is None


@pytest.mark.parametrize(
    ("status", "taken"),
    [
        ("SigCgt:\t0000000000004000\n", True),
        ("SigBlk:\t0000000000004000\nSigCgt:\t0000000000000000\n", True),
        ("SigIgn:\t0000000000004001\n", True),
        ("SigBlk:\t0000000000000000\nSigCgt:\t0000000000000002\n", False),
        ("ShdPnd:\t0000000000004000\nSigCgt:\n", False),
        ("", False),
    ],
)
def test_what_sigterm_does(status: str, taken: bool) -> None:  # noqa: FBT001  # a case of the table
    """Bit 14 of one of the masks in proc(5)."""
    assert takes_termination(status) is taken
