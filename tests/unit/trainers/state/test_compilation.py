"""How a callback compiled a model comes back, and nothing else comes with it."""

import sys
from pathlib import Path
from typing import Any

import keras
import pytest

from trainers.state.compilation import Compilation


def own_loss(y_true: Any, y_pred: Any) -> Any:
    """A script's."""
    return keras.ops.mean((y_true - y_pred) ** 4, axis=-1)


@keras.saving.register_keras_serializable()
class OwnLoss(keras.losses.Loss):
    """One that Keras knows."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """As the function."""
        return own_loss(y_true, y_pred)


def compiled(loss: Any) -> keras.Model:
    """A small model."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", loss, metrics=["mae"])
    return model


@pytest.mark.parametrize("loss", ["mae", own_loss, OwnLoss()])
def test_what_scripts_compile_with_comes_back(loss: Any) -> None:
    """Losses of Keras, and of the script."""
    model = compiled("mse")
    before = Compilation(model)
    model.compile("adam", loss, metrics=["mae"])
    changed, told = before.capture()
    assert told == []
    again = compiled("mse")
    assert Compilation(again).restore(changed, {"own_loss": own_loss}) == []
    assert isinstance(again.optimizer, keras.optimizers.Adam)


def test_layers_train_as_they_did_in_a_model_that_is_not_built_yet() -> None:
    """It has fewer layers than the one that was saved."""

    def made() -> keras.Model:
        inner = keras.Sequential([keras.layers.Dense(2, name="a")], name="inner")
        last = keras.layers.Dense(1, name="b")
        model = keras.Sequential([keras.layers.Dense(3, name="a"), inner, last])
        model.compile("sgd", "mse")
        return model

    model = made()
    before = Compilation(model)
    model.build((None, 2))
    assert before.capture() == ({}, [])
    model.layers[0].trainable = model.layers[1].layers[0].trainable = False
    changed, told = before.capture()
    assert told == []
    again = made()
    Compilation(again).unfreeze(changed)
    assert [one.trainable for one in again.layers] == [False, True, True]
    assert not again.layers[1].layers[0].trainable


@pytest.mark.parametrize("name", ["function", "Hurt"])
def test_a_configuration_is_no_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot's names no module to import: Keras before 3.9 would, whatever it is."""
    (tmp_path / "hurtful.py").write_text("class Hurt: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    loss = {"module": "hurtful", "class_name": name, "config": "Hurt"}
    changed = {"config": {"optimizer": "sgd", "loss": [loss]}}
    (told,) = Compilation(compiled("mse")).restore(changed, {})
    assert "the snapshot names hurtful:Hurt, which is not given back" in told
    assert "hurtful" not in sys.modules
