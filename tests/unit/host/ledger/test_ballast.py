"""Room that is held for a full disk."""

from pathlib import Path

from supervisor.host.ledger.ballast import Ballast


def test_room_is_held_and_given_back(tmp_path: Path) -> None:
    """Its blocks are really taken; a second hold or drop changes nothing."""
    ballast = Ballast(tmp_path / "ballast", 1 << 20)
    ballast.hold()
    ballast.hold()
    assert (tmp_path / "ballast").stat().st_blocks * 512 >= 1 << 20
    assert ballast.drop()
    assert not ballast.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_with_little_room_is_left_alone(tmp_path: Path) -> None:
    """The ballast must not be what fills it; and a place that is not there is none."""
    Ballast(tmp_path / "ballast", 1 << 60).hold()
    Ballast(tmp_path / "no" / "ballast").hold()
    assert list(tmp_path.iterdir()) == []
