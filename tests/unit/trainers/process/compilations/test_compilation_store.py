"""Compilations on disk: whole ones are handed out, of the rest nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.small_disk import fill, mounted
from trainers.process.compilations import compilation_store
from trainers.process.compilations.compilation_store import (
    DOUBTED,
    NEARLY_FULL,
    NO_ROOM,
    SUFFIX,
    CompilationStore,
    read_entry,
)

PLENTY = 1 << 20
ENTRIES = {"step.pb": b"first" * 100, "test.pb": b"second" * 100}


def store(place: Path, key: str = "key", quota: int = PLENTY) -> CompilationStore:
    """As an attempt opens it."""
    return CompilationStore(place / "kept", key=key, quota_bytes=quota)


def filled(place: Path, entries: dict[str, bytes] = ENTRIES) -> None:
    """An attempt that ends well, with these entries."""
    ours = store(place)
    ours.take()
    assert not any(ours.put(name, content) for name, content in entries.items())
    ours.proven()


def files(place: Path, key: str = "key") -> list[Path]:
    """Of the entries, the oldest first."""
    found = (place / "kept" / key).glob(f"*{SUFFIX}")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def name_in(path: Path) -> str:
    """Of the entry."""
    entry = read_entry(path)
    assert entry is not None
    return entry[0]


def test_a_later_attempt_finds_what_an_earlier_one_kept(tmp_path: Path) -> None:
    """By the framework's own names, to the byte."""
    filled(tmp_path)
    assert dict(store(tmp_path).take()) == ENTRIES


def test_another_key_finds_nothing(tmp_path: Path) -> None:
    """An upgrade begins with an empty one."""
    filled(tmp_path)
    assert dict(store(tmp_path, "other").take()) == {}


def test_nobody_else_can_look_in(tmp_path: Path) -> None:
    """Its user alone: what lies there is executed."""
    filled(tmp_path)
    for place in (tmp_path / "kept", tmp_path / "kept" / "key"):
        assert place.stat().st_mode & 0o777 == 0o700


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _no_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"step.pb", b"st\xffp.pb"))


def _endless_header(path: Path) -> None:
    path.write_bytes(b"x" * 10_000 + b"\n" + path.read_bytes())


def _a_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def _replaced(path: Path) -> None:
    other = next(one for one in path.parent.glob(f"*{SUFFIX}") if one != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize(
    "damage",
    [_emptied, _cut, _longer, _no_text, _endless_header, _a_link, _replaced],
)
def test_a_damaged_entry_is_removed(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The other one stays; what is missing is compiled and kept again."""
    filled(tmp_path)
    (hurt,) = [one for one in files(tmp_path) if b"step.pb" in one.read_bytes()]
    damage(hurt)
    ours = store(tmp_path)
    assert dict(ours.take()) == {"test.pb": ENTRIES["test.pb"]}
    assert not hurt.exists()
    ours.put("step.pb", b"anew")
    ours.proven()
    assert dict(store(tmp_path).take()) == {
        "test.pb": ENTRIES["test.pb"],
        "step.pb": b"anew",
    }


@given(where=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_no_flipped_bit_gets_through(
    tmp_path_factory: pytest.TempPathFactory, where: int, bit: int
) -> None:
    """In the header or in the content."""
    place = tmp_path_factory.mktemp("flipped")
    filled(place, {"step.pb": b"code" * 40})
    (path,) = files(place)
    content = bytearray(path.read_bytes())
    content[where % len(content)] ^= 1 << bit
    path.write_bytes(content)
    assert read_entry(path) is None
    assert dict(store(place).take()) == {}


def test_what_an_attempt_died_by_is_dropped(tmp_path: Path) -> None:
    """It had taken entries, and never said that it can go by them."""
    filled(tmp_path)
    assert dict(store(tmp_path).take()) == ENTRIES
    after = store(tmp_path)
    assert (dict(after.take()), after.dropped) == ({}, True)
    assert not (tmp_path / "kept" / "key" / DOUBTED).exists()
    again = store(tmp_path)
    assert (dict(again.take()), again.dropped) == ({}, False)


def test_an_attempt_that_took_nothing_leaves_no_doubt(tmp_path: Path) -> None:
    """It died while it compiled: what it kept until then is as good as any."""
    first = store(tmp_path)
    first.take()
    first.put("step.pb", b"code")
    second = store(tmp_path)
    assert (dict(second.take()), second.dropped) == ({"step.pb": b"code"}, False)


def test_the_oldest_make_room(tmp_path: Path) -> None:
    """Those of other keys, too; until half of the quota is free for what is new."""
    filled(tmp_path, {"a": b"a" * 1000, "b": b"b" * 1000})
    for age, path in enumerate(files(tmp_path)):
        os.utime(path, ns=(age, age))
    oldest, newer = files(tmp_path)
    other = store(tmp_path, "other", quota=3000)
    other.take()
    assert (oldest.exists(), newer.exists()) == (False, True)


def test_what_was_loaded_is_as_old_as_before(tmp_path: Path) -> None:
    """All are loaded, whether used or not; what an attempt compiled again is new."""
    filled(tmp_path, {"a": b"a" * 1000})
    (kept,) = files(tmp_path)
    os.utime(kept, ns=(1, 1))
    ours = store(tmp_path, quota=2300)
    assert len(dict(ours.take())) == 1
    assert kept.stat().st_mtime_ns == 1
    assert ours.put("b", b"b" * 1000) is None
    assert ours.put("a", b"c" * 1000) is None  # in its own place there is room
    assert kept.stat().st_mtime_ns > 1


def test_no_more_is_loaded_than_there_is_memory_for(tmp_path: Path) -> None:
    """The newest first, one at a time; what is too large stays on disk."""
    filled(tmp_path, {name: name.encode() * 1000 for name in "abc"})
    for age, path in enumerate(sorted(files(tmp_path), key=name_in)):
        os.utime(path, ns=(age, age))
    assert [name for name, _ in store(tmp_path).take(2500)] == ["c", "b"]
    store(tmp_path).proven()
    assert list(store(tmp_path).take(500)) == []
    assert len(files(tmp_path)) == 3


def test_the_quota_holds_while_an_attempt_runs(tmp_path: Path) -> None:
    """What does not fit is not kept; nothing is removed for it."""
    ours = store(tmp_path, quota=2500)
    ours.take()
    told = [ours.put(name, name.encode() * 1000) for name in "abc"]
    assert told == [None, None, NO_ROOM.format(2500)]
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 2500


def test_what_other_keys_left_is_cleared_away(tmp_path: Path) -> None:
    """Directories without entries, and what a kill left half-written."""
    filled(tmp_path)
    half = tmp_path / "kept" / "key" / ".step.1.tmp"
    half.write_bytes(b"half")
    empty = tmp_path / "kept" / "empty"
    empty.mkdir()
    (empty / DOUBTED).touch()
    store(tmp_path, "other").take()
    assert (half.exists(), empty.exists()) == (False, False)
    assert len(files(tmp_path)) == 2


def test_two_frameworks_of_one_attempt(tmp_path: Path) -> None:
    """The second, while there is nothing yet of the first."""
    first, second = store(tmp_path, "first"), store(tmp_path, "second")
    assert (dict(first.take()), dict(second.take())) == ({}, {})
    assert first.put("step.pb", b"code") is None
    assert dict(store(tmp_path, "first").take()) == {"step.pb": b"code"}


def test_a_disk_that_is_nearly_full_is_left_to_snapshots(tmp_path: Path) -> None:
    """Nothing is written there; when there is room again, it is."""
    with mounted(tmp_path / "disk", "256k") as disk:
        ours = store(disk)
        ours.take()
        assert ours.put("step.pb", bytes(50_000)) == NEARLY_FULL
        fill(disk / "ballast")
        assert ours.put("step.pb", bytes(100)) == NEARLY_FULL
        assert list((disk / "kept" / "key").iterdir()) == []
        (disk / "ballast").unlink()
        assert ours.put("step.pb", bytes(100)) is None
        assert dict(store(disk).take()) == {"step.pb": bytes(100)}


def test_a_disk_that_fills_up_meanwhile_is_an_error_that_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked goes on without."""
    monkeypatch.setattr(compilation_store, "FREE_FOR_EACH", 0)
    with mounted(tmp_path / "disk", "256k") as disk:
        ours = store(disk)
        ours.take()
        with pytest.raises(OSError, match="No space"):
            ours.put("step.pb", bytes(400_000))
        assert list((disk / "kept" / "key").iterdir()) == []
