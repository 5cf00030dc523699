"""Objects of the script's own classes are state, also where only a closure has them."""

import argparse
import collections
import contextlib
import enum
import importlib
import json
import math
import operator
import os
import random
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from trainers.state import object_state
from trainers.state.decode import StateDecoder
from trainers.state.encode import KIND, StateEncoder, UnencodableError
from trainers.state.iterator_state import NoWayBackError
from trainers.state.references import UntrustedNameError


class ObjectMode(enum.Enum):
    """What an object may be in."""

    WARM = 1
    COLD = 2


class Referrer:
    """Refers to something that it does not own."""

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.seen: list[float] = []
        self.mode = ObjectMode.COLD

    def add(self, value: float) -> None:
        """Change state of each kind."""
        self.seen.append(value)
        self.mode = ObjectMode.WARM


@dataclass
class Best:
    """With an object inside."""

    step: int = 0
    rng: random.Random = field(default_factory=random.Random)
    weights: np.ndarray | None = None
    inner: Referrer | None = None


@dataclass(slots=True)
class Average:
    """In slots, of which one may be empty, and one is private."""

    live: np.ndarray = field(init=False)
    shadow: np.ndarray | None = None
    __updates: int = 0

    def update(self) -> None:
        """Once more."""
        self.__updates += 1
        self.shadow = np.full(2, float(self.__updates))

    @property
    def updates(self) -> int:
        """So far."""
        return self.__updates


class Derived(argparse.Namespace):
    """Its class is the script's, what it inherits is not."""


def is_module(value: object) -> bool:
    """What the objects here may refer to."""
    return isinstance(value, types.ModuleType)


def saved(value: object) -> Callable[[object], Any]:
    """``value`` through JSON; called with what there is, gives it back into that."""
    encoder = StateEncoder("x/", array_of=lambda _value: None, refers=is_module)
    text = json.dumps(encoder.encode(value))
    stored = {tensor.name: tensor.read().copy() for tensor in encoder.tensors}
    decoder = StateDecoder(stored, assign=lambda _existing, array, _kind: array)
    return lambda existing: decoder.decode(json.loads(text), existing=existing)


def encoded(value: object) -> Any:
    """``value`` as JSON, and what its tensors hold."""
    encoder = StateEncoder("x/", array_of=lambda _value: None)
    return [encoder.encode(value), [one.read().tolist() for one in encoder.tensors]]


def test_attributes_come_back_in_place() -> None:
    """In the object that is there, which keeps what it refers to."""
    tracker = Referrer(json)
    tracker.add(1.5)
    give_back = saved(tracker)
    anew = Referrer(json)
    seen = anew.seen
    assert give_back(anew) is anew
    assert (anew.seen, anew.mode, anew.owner) == ([1.5], ObjectMode.WARM, json)
    assert anew.seen is seen


def test_attributes_in_slots() -> None:
    """As others; what the class has no slot for (any more) is told."""
    average = Average()
    average.update()
    there = Average(np.zeros(2))
    assert saved(average)(there) is there
    assert there.updates == 1
    assert there.shadow is not None
    assert there.shadow.tolist() == [1.0, 1.0]
    assert not hasattr(there, "live")
    with pytest.raises(NoWayBackError, match="Average has no slot gone"):
        object_state.give_back(there, "gone", 1)


def test_objects_in_objects_and_lists() -> None:
    """Each into the one in its place; what is not there is made without its
    ``__init__``."""
    best = Best(3, weights=np.arange(3.0), inner=Referrer(None))
    assert best.inner is not None
    best.inner.add(2.0)
    give_back = saved([best, Referrer(json)])
    expected = best.rng.random()
    kept = Referrer(json)
    there: list[Any] = [Best(), kept]
    found = give_back(there)
    assert found is there
    assert found[1] is kept
    assert kept.owner is json
    assert (found[0].step, found[0].inner.seen) == (3, [2.0])
    assert found[0].weights.tolist() == [0.0, 1.0, 2.0]
    assert found[0].rng.random() == expected
    assert saved(best)(None).step == 3


@pytest.mark.parametrize(
    "value", [argparse.Namespace(a=1), Derived(), object(), KeyError("x"), Referrer]
)
def test_classes_of_others_are_not_looked_into(value: object) -> None:
    """Nobody knows what they mean by their attributes."""
    assert not object_state.is_own(value)


def test_what_an_object_holds_and_nobody_can_save_is_told() -> None:
    """By its type."""
    tracker = Referrer(number for number in range(3))
    with pytest.raises(UnencodableError, match="generator"):
        saved(tracker)


@pytest.mark.parametrize("installed", [True, False])
def test_packages_are_nobodys_own_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    """``pip install --target`` puts them into any directory on the path."""
    name = f"lies_anywhere_{installed}".lower()
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "inner.py").touch()
    if installed:
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(f"{name}.inner")
    assert object_state.is_own_module(module) is not installed


class Named(NamedTuple):
    """As a script has them."""

    step: int
    loss: float


def decoded(value: object, existing: object = None) -> Any:
    """What a snapshot with ``value`` in it gives back."""
    decoder = StateDecoder({}, assign=lambda _existing, array, _kind: array)
    return decoder.decode(value, existing=existing)


@pytest.mark.parametrize(
    "value",
    [
        {KIND: "named", "type": "posix:system", "v": ["touch hurt"]},
        {KIND: "named", "type": "subprocess:Popen", "v": [["touch", "hurt"]]},
        {KIND: "named", "type": "builtins:tuple", "v": [[1]]},
        {KIND: "object", "type": "subprocess:Popen", "v": {"pid": 1}},
        {KIND: "enum", "type": "posix:environ", "v": "PATH"},
        {KIND: "default", "f": {KIND: "reference", "v": "os:abort"}, "v": []},
        {KIND: "reference", "v": "posix:system"},
        {KIND: "reference", "v": f"{__name__}:os.system"},
        {KIND: "reference", "v": "builtins:exec"},
        {KIND: "reference", "v": "builtins:eval"},
        {KIND: "reference", "v": "shutil:rmtree"},
        {KIND: "reference", "v": "importlib:import_module"},
        {KIND: "reference", "v": "operator:methodcaller"},
        {KIND: "reference", "v": "pickle:loads"},
        [{KIND: "tuple", "v": [{KIND: "reference", "v": "subprocess:run"}]}],
        {
            KIND: "generator",
            "v": {KIND: "dict", "v": [["bit_generator", "test"]]},
        },
    ],
)
def test_what_a_snapshot_names_is_no_order(
    value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may be able to write to the bucket that it comes from."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UntrustedNameError, match="not given back"):
        decoded(value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["reference", "object", "named", "enum"])
@pytest.mark.parametrize(
    "place",
    ["ctypes:cdll./nowhere/library", "lazy_names:anything", "lazy_names:Made.anything"],
)
def test_a_name_is_looked_up_and_not_asked_for(
    kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ctypes.cdll`` loads the library that it is asked for; modules (PEP 562) import."""
    asked: list[str] = []

    class Meta(type):
        def __getattr__(cls, name: str) -> object:
            asked.append(name)
            raise AttributeError(name)

    module = types.ModuleType("lazy_names")
    vars(module).update(__getattr__=asked.append, Made=Meta("Made", (), {}))
    monkeypatch.setitem(sys.modules, "lazy_names", module)
    with contextlib.suppress(UntrustedNameError):
        assert decoded({KIND: kind, "type": place, "v": place}) is None
    assert asked == []


@pytest.mark.parametrize(
    "value",
    [
        np.less, np.float32, keras.ops.greater, math.sqrt, int, Best, is_module,
        operator.add, collections.Counter, Path, Named(3, 0.5), ObjectMode.WARM,
        collections.defaultdict(list, {"a": [1]}), argparse.Namespace,
    ],
)  # fmt: skip
def test_what_scripts_keep_comes_back(value: object) -> None:
    """Functions and classes of theirs and of libraries, data types, arithmetic."""
    allowed = value is not argparse.Namespace
    with contextlib.nullcontext() if allowed else pytest.raises(UntrustedNameError):
        assert saved(value)(None) == value


def test_an_array_in_a_file_is_written_to_its_file(tmp_path: Path) -> None:
    """The script maps it again at its start; what it is then is another matter."""
    mapped = np.memmap(tmp_path / "losses", np.float32, "w+", shape=(3,))
    mapped[:] = [1.0, 2.0, 3.0]
    give_back = saved({"seen": mapped})
    again = np.memmap(tmp_path / "losses", np.float32, "w+", shape=(3,))
    assert give_back({"seen": again})["seen"] is again
    assert np.fromfile(tmp_path / "losses", np.float32).tolist() == [1.0, 2.0, 3.0]
    for other in (
        None,
        np.zeros(3, np.float32),
        np.memmap(tmp_path / "other", np.float32, "w+", shape=(4,)),
        np.memmap(tmp_path / "losses", np.float32, "r", shape=(3,)),
    ):
        with pytest.raises(NoWayBackError, match="no array of that shape"):
            give_back({"seen": other})


def test_an_array_of_a_file_that_is_only_read(tmp_path: Path) -> None:
    """Nothing can be written there: if the file is another, its values are not."""
    np.arange(3.0).tofile(tmp_path / "data")
    give_back = saved({"x": np.memmap(tmp_path / "data", float, "r")})
    again = np.memmap(tmp_path / "data", float, "r")
    assert give_back({"x": again})["x"] is again
    np.zeros(3).tofile(tmp_path / "data")
    assert give_back({"x": again})["x"].tolist() == [0.0, 1.0, 2.0]
    assert again.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("there", [None, np.zeros((40, 300)), np.zeros((300, 40)).T])
def test_an_array_that_lies_by_columns(there: np.ndarray | None) -> None:
    """``np.array(kernel.T)`` does: the bits of a sum depend on the order of its terms."""
    rng = np.random.default_rng(0)
    kept = np.array(rng.normal(size=(300, 40)).T)
    assert np.sum(kept) != np.sum(np.ascontiguousarray(kept))
    found = saved({"mean": kept})({"mean": there})["mean"]
    assert np.sum(found) == np.sum(kept)
    kept = np.ascontiguousarray(kept)
    found = saved({"mean": kept})({"mean": there})["mean"]
    assert np.sum(found) == np.sum(kept)


def test_an_array_in_a_file_that_lies_by_columns(tmp_path: Path) -> None:
    """It takes its values as any other."""
    kinds: dict[str, Any] = {"mode": "w+", "shape": (2, 3), "order": "F"}
    mapped = np.memmap(tmp_path / "losses", float, **kinds)
    mapped[:] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    again = np.memmap(tmp_path / "other", float, **kinds)
    assert saved(mapped)(again) is again
    assert np.fromfile(tmp_path / "other").tolist() == [1, 4, 2, 5, 3, 6]


def test_a_copy_of_an_array_in_a_file(tmp_path: Path) -> None:
    """It is of its type, and in no file: ``self.best = self.losses.copy()``."""
    mapped = np.memmap(tmp_path / "losses", float, "w+", shape=(3,))
    mapped[:] = [1.0, 2.0, 3.0]
    assert saved({"best": mapped.copy()})({"best": None})["best"].tolist() == [1, 2, 3]


def test_a_file_that_is_larger_than_a_state(tmp_path: Path) -> None:
    """It is told, and not copied with each snapshot: it may not fit into memory."""
    large = np.memmap(tmp_path / "data", np.uint8, "w+", shape=(1 << 30,))
    with pytest.raises(UnencodableError, match="1024 MiB in a file"):
        saved(large)


def test_what_is_there_stays() -> None:
    """Nothing is gained by its name."""
    assert saved(os.getpid)(os.getpid) is os.getpid
    assert saved([os.getpid])([os.getpid]) == [os.getpid]
    with pytest.raises(UntrustedNameError):
        saved(os.getpid)(None)


@pytest.mark.parametrize(
    ("there", "one", "other"),
    [
        ([], [1], [2]),
        ({}, {"a": 1}, {"a": np.ones(2)}),
        (set(), {1}, {2}),
        (np.zeros(2), np.ones(2), np.full(2, 2.0)),
        (Best(), Best(1, weights=np.ones(2)), Best(1, weights=np.zeros(2))),
        (random.Random(1), random.Random(2), random.Random(3)),  # noqa: S311  # no secret
    ],
    ids=["lists", "dictionaries", "sets", "arrays", "objects", "generators"],
)
def test_what_was_one_thing_at_the_start(there: Any, one: Any, other: Any) -> None:
    """``self.best = self.log = []``, and each is another since: each has its own value, and
    where they are alike, they are one thing still."""
    found = saved({"log": one, "best": other})({"log": there, "best": there})
    assert found["log"] is there
    assert found["best"] is not there
    assert json.dumps(encoded(found)) == json.dumps(
        encoded({"log": one, "best": other})
    )
    again = saved({"log": one, "best": one})({"log": there, "best": there})
    assert again["log"] is again["best"]


@pytest.mark.parametrize(
    "generator",
    [np.random.RandomState(1), np.random.Generator(np.random.MT19937(1))],
    ids=["legacy", "new"],
)
def test_a_generator_that_stands_outside_of_its_state(generator: Any) -> None:
    """NumPy would read what lies behind it, and crash."""
    encoder = StateEncoder("x/", array_of=lambda _value: None)
    text = json.dumps(encoder.encode(generator))
    stored = {one.name: one.read().copy() for one in encoder.tensors}
    changed, count = re.subn(r'\["pos", \d+\]', '["pos", 99999999]', text)
    assert count == 1
    decoder = StateDecoder(stored, assign=lambda _existing, array, _kind: array)
    with pytest.raises(NoWayBackError, match="stands at 99999999 of 624"):
        decoder.decode(json.loads(changed))


def test_one_thing_in_several_places_is_one_again() -> None:
    """Lists, arrays and objects; what only equals it is another."""
    tracker, row, weights = Referrer(json), [1.0], np.ones(2)
    value = {
        "all": [tracker, row, weights],
        "row": row,
        "other": [1.0],
        "w": (weights,),
    }
    made = saved([value, {"last": tracker}])(None)
    first, last = made
    assert last["last"] is first["all"][0]
    assert first["row"] is first["all"][1]
    assert first["w"][0] is first["all"][2]
    assert first["row"] == first["other"] == [1.0]
    assert first["other"] is not first["row"]


def test_what_was_met_in_what_cannot_be_saved_is_saved_where_it_is_met_again() -> None:
    """Nobody has it then."""
    encoder = StateEncoder("x/", array_of=lambda _value: None)
    row = [1.0]
    with pytest.raises(UnencodableError):
        encoder.encode([row, (one for one in row)])
    assert encoder.encode({"row": row}) == {KIND: "dict", "v": [["row", [1.0]]]}


def test_the_same_as_what_has_not_had_its_turn() -> None:
    """It is looked for in all there is; where it is not, that is said."""
    encoder, row = StateEncoder("x/", array_of=lambda _value: None), [1.0]
    first, second = encoder.encode([row]), encoder.encode(row)
    decoder = StateDecoder(
        {}, assign=lambda _existing, array, _kind: array, whole=first
    )
    alone = StateDecoder({}, assign=lambda _existing, array, _kind: array)
    made = decoder.decode(second)
    assert made == [1.0]
    assert decoder.decode(first)[0] is made
    with pytest.raises(NoWayBackError, match="one with something that is not there"):
        alone.decode(second)
