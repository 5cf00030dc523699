"""Modules that were imported ahead: hidden, put back, compared with their files."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

from trainers.process.standby.import_context import ImportRecorder, context, read
from trainers.process.standby.preloaded_modules import (
    PreloadedModules,
    PreloadedPart,
    applied,
    files_of,
)


class BegunAnewError(Exception):
    """The attempt begins once more, for the reason that is told."""


def begins_anew(because: str) -> NoReturn:
    """In the place of another image of the process."""
    raise BegunAnewError(because)


def made(name: str) -> ModuleType:
    """A module that no file is of."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    return module


@pytest.fixture
def modules() -> Iterator[dict[str, ModuleType]]:
    """A package that a framework imports too; the interpreter is left as it was."""
    finders, ask, known = list(sys.meta_path), PathFinder.find_spec, set(sys.modules)
    yield {name: made(name) for name in ("aside", "aside.part", "besides")}
    sys.meta_path[:] = finders
    setattr(PathFinder, "find_spec", staticmethod(ask))  # noqa: B010  # as it was
    for name in set(sys.modules) - known:
        del sys.modules[name]


def preloaded(modules: dict[str, ModuleType]) -> PreloadedModules:
    """As if ``keras`` had been imported here, and these with it."""
    part = PreloadedPart(
        record=context("keras", dict(os.environ)),
        modules={**modules, "keras": made("keras")},
    )
    return PreloadedModules(parts=[part])


def test_what_is_looked_for_is_hidden_and_what_is_imported_is_there(
    modules: dict[str, ModuleType],
) -> None:
    """One import brings its own package alone; the framework's brings all."""
    preloaded(modules).offer(dict(os.environ), begins_anew)
    assert importlib.util.find_spec("aside") is not None
    assert "aside" not in sys.modules
    assert importlib.import_module("aside") is modules["aside"]
    assert sys.modules["aside.part"] is modules["aside.part"]
    assert "besides" not in sys.modules
    assert modules["aside"].__spec__ == ModuleSpec("aside", None)
    kept = sys.modules.pop("keras", None)
    assert importlib.import_module("keras").__spec__ == ModuleSpec("keras", None)
    assert sys.modules["besides"] is modules["besides"]
    sys.modules.pop("keras")
    if kept is not None:
        sys.modules["keras"] = kept


def test_a_script_that_rearranges_finders_gets_them_too(
    modules: dict[str, ModuleType],
) -> None:
    """A native module must not be loaded twice."""
    preloaded(modules).offer(dict(os.environ), begins_anew)
    sys.meta_path[:] = [PathFinder]
    assert importlib.import_module("besides") is modules["besides"]


def test_other_circumstances_are_a_new_beginning(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of what differs is told, and not its value."""
    initial = dict(os.environ)
    preloaded(modules).offer(initial, begins_anew)
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "a secret")
    with pytest.raises(BegunAnewError, match=r"circumstances: KERAS_BACKEND$"):
        importlib.import_module("keras")


def test_a_file_that_was_changed_or_removed_is_noticed(tmp_path: Path) -> None:
    """An upgrade while it waits."""
    paths = [tmp_path / name for name in ("a.py", "b.so")]
    for path in paths:
        path.write_text("1")
    found = PreloadedModules(files=files_of([str(path) for path in paths]))
    assert found.changed() is None
    paths[1].write_text("12")
    assert found.changed() == str(paths[1])
    paths[1].unlink()
    assert found.changed() == str(paths[1])


def test_the_recorder_writes_how_frameworks_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the last look before each import, and of nothing else."""
    initial = dict(os.environ)
    recorder = ImportRecorder(tmp_path / "imports.json", initial)
    assert recorder.find_spec("keras") is None
    assert recorder.find_spec("pandas") is None
    monkeypatch.setenv("TF_SET", "1")
    monkeypatch.delenv("HOME")
    recorder.find_spec("numpy")
    recorder.find_spec("keras")
    records = read(tmp_path / "imports.json")
    assert records == [context(name, initial) for name in ("numpy", "keras")]
    assert records is not None
    assert records[0].environment == {"TF_SET": "1", "HOME": None}
    assert applied(initial, records[0].environment) == dict(os.environ)
    assert read(tmp_path / "none.json") is None
    (tmp_path / "half.json").write_text('{"imports": [{"name": "keras"}]}')
    assert read(tmp_path / "half.json") is None
