"""A copy of a working directory, and what a script leaves in it."""

import json
import zipfile
from pathlib import Path

import pytest

from supervisor.host.snapshots import working_copy
from supervisor.host.snapshots.working_copy import copy_of, differing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A working directory as people have them."""
    root = tmp_path / "project"
    for name in ("data/a.csv", "train.py", ".git/config", "__pycache__/x.pyc"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "state").mkdir()
    (root / "state" / "ledger").write_text("ours")
    return root


def test_what_is_copied(source: Path, tmp_path: Path) -> None:
    """Files and empty directories; links stay links; nothing hidden, nothing of ours."""
    copy = copy_of(source, tmp_path / "copy", without=source / "state")
    found = sorted(str(path.relative_to(copy.root)) for path in copy.root.rglob("*"))
    assert found == ["data", "data/a.csv", "linked", "out", "train.py"]
    assert (copy.root / "linked").readlink() == tmp_path / "elsewhere"
    assert copy.written() == {}


def test_large_files_are_linked(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And told; a limit of nine bytes stands for that of 256 MiB."""
    monkeypatch.setattr(working_copy, "LINKED_BYTES", 9)
    copy = copy_of(source, tmp_path / "copy", without=source / "state")
    assert copy.linked == ("data/a.csv",)
    assert (copy.root / "data" / "a.csv").is_symlink()


def test_what_two_runs_left(source: Path, tmp_path: Path) -> None:
    """Only what a script made or changed is compared, byte by byte."""
    copies = [
        copy_of(source, tmp_path / name, without=source / "state")
        for name in ("one", "other")
    ]
    for number, copy in enumerate(copies):
        (copy.root / "out" / "same.txt").write_text("same")
        (copy.root / "out" / "other.txt").write_text(f"{number}")
        (copy.root / "train.py").write_text("changed")
        if number:
            (copy.root / "once.txt").write_text("")
    one, other = copies[0].moved(tmp_path / "moved"), copies[1]
    assert differing(one, other) == (4, ["once.txt", "out/other.txt"])


def test_when_a_file_was_written_is_no_difference(tmp_path: Path) -> None:
    """A model of Keras and TensorFlow's list of checkpoints hold the time."""
    source = tmp_path / "source"
    source.mkdir()
    copies = [
        copy_of(source, tmp_path / n, without=source / "x") for n in ("a", "b", "c")
    ]
    for copy, day, weights in zip(copies, (1, 2, 2), (b"w", b"w", b"v"), strict=True):
        with zipfile.ZipFile(copy.root / "m.keras", "w") as archive:
            archive.writestr(
                zipfile.ZipInfo("model.weights.h5", (2026, 1, day, 0, 0, 0)), weights
            )
            archive.writestr("metadata.json", f'{{"date_saved": "{day}"}}')
        (copy.root / "checkpoint").write_text(
            f'model_checkpoint_path: "{weights!r}"\nlast_preserved_timestamp: {day}.5\n'
        )
    assert differing(copies[0], copies[1]) == (2, [])
    assert differing(copies[1], copies[2]) == (2, ["checkpoint", "m.keras"])
    (copies[0].root / "m.keras").write_bytes(b"no archive")
    assert differing(copies[0], copies[1]) == (2, ["m.keras"])


def test_what_layers_share_has_another_address_in_each_process(tmp_path: Path) -> None:
    """Keras writes it into a model's configuration: which layers share what is compared,
    not where that lay in memory."""
    source = tmp_path / "source"
    source.mkdir()
    shared = ((7001, 7001, 8), (9403, 9403, 12), (7001, 8, 8))
    copies = [copy_of(source, tmp_path / n, without=source / "x") for n in "abc"]
    for copy, addresses in zip(copies, shared, strict=True):
        with zipfile.ZipFile(copy.root / "m.keras", "w") as archive:
            layers = [{"dtype": {"shared_object_id": one}} for one in addresses]
            archive.writestr("config.json", json.dumps({"layers": layers}))
    assert differing(copies[0], copies[1]) == (1, [])
    assert differing(copies[1], copies[2]) == (1, ["m.keras"])
