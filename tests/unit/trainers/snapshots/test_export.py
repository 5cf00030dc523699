"""A snapshot as a file of ordinary Keras, also where compiling it has a history."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from supervisor.wire.snapshots.manifest import FORMAT, Manifest
from trainers.snapshots import export
from trainers.snapshots.durable_store import Store
from trainers.snapshots.writer import Saved, SnapshotWriter
from trainers.state import fit_state

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"  # Keras' own saving
)
X, Y = np.ones((8, 3), np.float32), np.zeros((8, 2), np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty one."""
    made = Store(tmp_path / "snapshots", job="job", kept=2)
    yield made
    made.close()


def exported(model: Any, store: Store, out: Path, *, serial: int = 1) -> Any:
    """``model`` through a snapshot and a file."""
    state, tensors, _ = fit_state.capture(model, [], {})
    manifest = Manifest(
        format=FORMAT, job="job", attempt=1, serial=serial, step=serial, fit=0,
        fit_done=True, epoch=0, step_in_epoch=0, batch=8, samples=8, slices=1,
        tensors_bytes=0, tensors_hash="", wall_time=0.0, state=state,
    )  # fmt: skip
    told: list[Saved] = []
    saver = SnapshotWriter(store, told.append)
    saver.save(tensors, manifest, began=0.0)
    saver.wait()
    entry = told[-1].entry
    assert entry is not None, told[-1].error
    export.export(entry.path, out)
    return keras.saving.load_model(out)


def same(one: Any, other: Any) -> None:
    """All variables, the optimizer's included, are equal."""
    for group in ("variables", "optimizer.variables"):
        lists = []
        for model in (one, other):
            found = model
            for name in group.split("."):
                found = getattr(found, name)
            lists.append([v.numpy() for v in found])
        assert [a.tolist() for a in lists[0]] == [b.tolist() for b in lists[1]]


def layers() -> list[Any]:
    """Two of them."""
    return [keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)]


def test_a_model_that_was_compiled_again(store: Store, tmp_path: Path) -> None:
    """Fine-tuning: another optimizer, and layers frozen since the snapshot before."""
    model = keras.Sequential(layers())
    model.compile("sgd", "mse")
    model.fit(X, Y, verbose=0)
    same(model, exported(model, store, tmp_path / "one.keras"))
    model.layers[0].trainable = False
    model.compile("adam", "mse")
    model.fit(X, Y, verbose=0)
    loaded = exported(model, store, tmp_path / "two.keras", serial=2)
    same(model, loaded)
    assert isinstance(loaded.optimizer, keras.optimizers.Adam)
    assert not loaded.layers[0].trainable


def test_a_model_with_an_optimizer_of_its_own(store: Store, tmp_path: Path) -> None:
    """The file has the one that it was compiled with; the other is the script's."""
    model = keras.Sequential(layers())
    model.compile("adam", "mse")
    model.fit(X, Y, verbose=0)
    model.second = keras.optimizers.Adam(0.5)
    model.second.build(model.trainable_variables)
    same(model, exported(model, store, tmp_path / "out.keras"))


class Doubled(keras.layers.Layer):
    """Of a script."""

    def call(self, inputs: Any) -> Any:
        """Twice."""
        return 2 * inputs


def test_a_snapshot_imports_nothing(store: Store, tmp_path: Path) -> None:
    """Keras before 3.9 would import whatever module the model in it is said to be of."""
    model = keras.Sequential([keras.Input((3,)), Doubled(), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.fit(X, Y, verbose=0)
    made_of = f"made of {Doubled.__module__}:Doubled, which is the script's"
    with pytest.raises(export.NotExportedError, match=made_of):
        exported(model, store, tmp_path / "out.keras")
