"""Which batch would fit a model with a ``train_step`` of its own."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.support.sliced_models import X, Y
from trainers.backends.memory.allocator_figures import PeakReading
from trainers.backends.tensorflow.allocator import peak_readings
from trainers.microbatch import custom_step_sizing


class OwnStep(keras.Sequential):
    """A step that somebody wrote."""

    def train_step(self, data: Any) -> Any:
        """Keras' own, of what is given under ``x``."""
        x, y = data
        return super().train_step((x["x"] if isinstance(x, dict) else x, y))


@pytest.fixture
def model() -> OwnStep:
    """With its weights made."""
    made = OwnStep([keras.Input((12,)), layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator in which a step adds 100 bytes for each sample it may have."""
    reading = PeakReading(current_bytes=0, peak_bytes=100)
    monkeypatch.setattr(peak_readings, "read", lambda: reading)
    monkeypatch.setattr(peak_readings, "reset_peak", lambda: True)


def fitting(model: OwnStep, x: Any) -> int | None:
    """What would fit in place of 64 samples."""
    return custom_step_sizing.fitting(model, (x, Y[:64]), failed=64, limit_bytes=10**6)


def test_a_size_is_told(model: OwnStep) -> None:
    """The largest that was tried, below the one that failed."""
    found = fitting(model, X[:64])
    assert found is not None
    assert 2 <= found < 64


@pytest.mark.parametrize(
    "odd",
    [np.float32(1.0), tf.sparse.from_dense(np.eye(64, dtype=np.float32))],
    ids=["scalar", "sparse"],
)
def test_a_batch_that_cannot_be_cut_is_no_crash(model: OwnStep, odd: Any) -> None:
    """Nothing can be told of it, and the sentence goes without."""
    assert fitting(model, {"x": X[:64], "odd": odd}) is None


def test_a_step_that_fails_ends_the_search(
    model: OwnStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured before it holds."""

    def train_step(data: Any) -> Any:
        if data[0].shape[0] is None or data[0].shape[0] > 8:
            raise tf.errors.ResourceExhaustedError(None, None, "no room")
        return {"loss": tf.constant(0.0)}

    monkeypatch.setattr(model, "train_step", train_step)
    model.run_eagerly = True
    found = fitting(model, X[:64])
    assert found is not None
    assert 2 <= found <= 8
