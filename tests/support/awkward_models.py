"""Small models that a batch in slices gets wrong, unless they are looked at closely.

For all backends of Keras: for 12 numbers a sample, and one or five as targets.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops
from typing_extensions import override


class LineOfTwo(keras.Model):
    """Two layers; what is made of them is up to others."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Dense(16, activation="relu")
        self.last = layers.Dense(1)
        self.make()

    def make(self) -> None:
        """More, of others."""

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.last(self.first(inputs))


class ContrastOfRows(LineOfTwo):
    """Each row against all others of its batch, with a temperature that is learned."""

    @override
    def make(self) -> None:
        """The temperature."""
        self.heat = self.add_weight(shape=(), initializer="ones", name="heat")

    def compute_loss(  # Keras' own signature
        self,
        x: Any,
        y: Any,
        y_pred: Any,
        sample_weight: Any,
        training: Any = True,  # noqa: FBT002  # as theirs
    ) -> Any:
        """Which row is which."""
        del x, y, sample_weight, training
        logits = ops.matmul(y_pred, ops.transpose(y_pred)) * self.heat
        rows = ops.arange(ops.shape(logits)[0])
        entropy = keras.losses.sparse_categorical_crossentropy
        return ops.mean(entropy(rows, logits, from_logits=True))


class CentredLoss(LineOfTwo):
    """Its loss follows a moving average of its predictions, which it keeps itself."""

    @override
    def make(self) -> None:
        """The average."""
        self.centre = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def compute_loss(  # Keras' own signature
        self,
        x: Any,
        y: Any,
        y_pred: Any,
        sample_weight: Any,
        training: Any = True,  # noqa: FBT002  # as theirs
    ) -> Any:
        """A mean over samples, for as long as the average stands still."""
        del x, sample_weight, training
        loss = ops.mean(ops.square(y - y_pred - self.centre))
        self.centre.assign(0.9 * self.centre + 0.1 * ops.mean(y_pred))
        return loss


class CountingCall(LineOfTwo):
    """Counts in its call what goes through it."""

    @override
    def make(self) -> None:
        """The count."""
        self.through = keras.metrics.Sum(name="through")

    @override
    def call(self, inputs: Any) -> Any:
        """A line."""
        hidden = self.first(inputs)
        self.through.update_state(ops.sum(hidden))
        return self.last(hidden)


class OpensLater(layers.Layer):
    """Adds a sum over samples, times a factor that is zero at first."""

    def build(self, _shape: Any) -> None:
        """The factor."""
        self.factor = self.add_weight(
            shape=(), initializer="zeros", trainable=False, name="factor"
        )

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        self.add_loss(self.factor * ops.sum(ops.square(inputs)))
        return inputs


class OpenedAfterEpoch(keras.callbacks.Callback):
    """Sets the factors after an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Open."""
        del epoch, logs
        for layer in self.model.layers:
            if isinstance(layer, OpensLater):
                layer.factor.assign(0.01)


class RootOfZeros(layers.Layer):
    """Keeps squares that are all zero at first, and takes no negative ones."""

    def build(self, shape: Any) -> None:
        """The squares."""
        self.squares = self.add_weight(
            shape=shape[1:], initializer="zeros", trainable=False, name="squares"
        )

    def call(self, inputs: Any) -> Any:
        """The inputs, divided by their roots."""
        return inputs / (1 + ops.sqrt(self.squares))


class GatedMean(layers.Layer):
    """Adds the mean of the batch, through a gate that is shut at first."""

    def build(self, _shape: Any) -> None:
        """The gate."""
        self.gate = self.add_weight(shape=(), initializer="zeros", name="gate")

    def call(self, inputs: Any) -> Any:
        """Inputs, and what they are around."""
        return inputs + self.gate * ops.mean(inputs, axis=0, keepdims=True)


def _ready(model: Any, loss: Any = "mse", **options: Any) -> Any:
    model.compile("adam", loss, **options)
    return model


def _around(layer: Any) -> Any:
    inputs = keras.Input((12,))
    return keras.Model(inputs, layers.Dense(1)(layer(layers.Dense(16)(inputs))))


def without_padding(target: Any, prediction: Any) -> Any:
    """The mean over what is no padding."""
    counts = ops.cast(target != 0, "float32")
    return ops.sum(counts * ops.square(target - prediction)) / ops.sum(counts)


def weighed_down() -> Any:
    """A loss that uses a weight itself."""
    model = _around(layers.Activation("relu"))
    kernel = model.layers[1].kernel

    def loss(target: Any, prediction: Any) -> Any:
        worst = ops.max(ops.square(target - prediction))
        return worst + 0.1 * ops.sum(ops.square(kernel))

    return _ready(model, loss)


def with_step_put_in() -> Any:
    """A train step that the script put into the model itself, for targets twice as large."""
    model = _ready(_around(layers.Activation("relu")))
    own = type(model).train_step

    def train_step(*given: Any) -> Any:
        *state, (x, y) = given
        return own(model, *state, (x, 2 * y))

    model.train_step = train_step
    return model


AWKWARD: dict[str, Callable[[], Any]] = {
    "temperature": lambda: _ready(ContrastOfRows(), None),
    "weight in a loss": weighed_down,
    "moving average in a loss": lambda: _ready(CentredLoss(), None),
    "padding later": lambda: _ready(
        _around(layers.Activation("relu")), without_padding
    ),
    "zeros under a root": lambda: _ready(_around(RootOfZeros())),
    "sum that is zero at first": lambda: _ready(_around(OpensLater())),
}
"""Those that slices do not change."""
COUNTS_IN_CALL = "counts in its call"
OTHERWISE: dict[str, Callable[[], Any]] = {
    "gate that is shut": lambda: _ready(_around(GatedMean())),
    COUNTS_IN_CALL: lambda: _ready(CountingCall(), lambda y, p: ops.max(abs(y - p))),
    "step put in": with_step_put_in,
}
"""Those that slices change, which is told."""


def padded(targets: Any, *, whole: int) -> Any:
    """``targets`` with zeros in many, but for the ``whole`` first ones."""
    some = targets.copy()
    some[whole:][targets[whole:] < 0] = 0
    return some
