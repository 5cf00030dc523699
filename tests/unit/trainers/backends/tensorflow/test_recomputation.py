"""Activations that are computed again: the same training, of layers that allow it."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tests.support.samples import sampled
from trainers.backends.tensorflow import recomputation

draw = np.random.default_rng(0)
X = draw.normal(size=(32, 8, 6)).astype("float32")
Y = draw.normal(size=(32, 1)).astype("float32")


@keras.saving.register_keras_serializable("recomputation")
class Block(keras.layers.Layer):
    """A layer with layers in it, told by keyword whether it trains."""

    def __init__(self, *, dropout: float = 0.0, adds: bool = False) -> None:
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(2, 3)
        self.wide = keras.layers.Dense(16, activation="gelu")
        self.narrow = keras.layers.Dense(6)
        self.dropout = keras.layers.Dropout(dropout) if dropout else None
        self.adds = adds

    def build(self, shape: Any) -> None:
        """All variables, before the first step."""
        self.attention.build(shape, shape)
        self.wide.build(shape)
        self.narrow.build((*shape[:-1], 16))
        self.built = True

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Attention over itself, then two layers."""
        x = self.attention(x, x, training=training)
        x = self.wide(x)
        if self.dropout is not None:
            x = self.dropout(x, training=training)
        if self.adds:
            self.add_loss(keras.ops.mean(x))
        return self.narrow(x)


@keras.saving.register_keras_serializable("recomputation")
class Drawing(keras.layers.Layer):
    """A layer that draws, and has no generator of its own."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = keras.layers.Dense(6)
        self.kind = kind

    def build(self, shape: Any) -> None:
        """All variables, before the first step."""
        self.inner.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        """A layer of what is left of the input."""
        if self.kind == "tensorflow":
            x = tf.nn.dropout(x, 0.5)
        elif self.kind == "function":
            x = tf.function(lambda one: tf.nn.dropout(one, 0.5))(x)
        elif self.kind == "keras":
            x = keras.random.dropout(x, 0.5)
        elif self.kind == "python":
            x = x * np.random.default_rng().normal()
        return self.inner(x)


def recompute(model: Any) -> tuple[int, int]:
    """As ``fit`` does it, for batches of any size."""
    spec = tuple(tf.TensorSpec([None, *one.shape[1:]]) for one in (X, Y))
    return recomputation.recompute(model, spec)


def model_of(*layers: Any, policy: str = "float32") -> Any:
    """One that is built and compiled, from the same start each time."""
    keras.utils.set_random_seed(3)
    keras.config.set_dtype_policy(policy)
    try:
        made = [layer() for layer in layers]
        model = keras.Sequential(
            [
                keras.Input((8, 6)),
                *made,
                keras.layers.Flatten(),
                keras.layers.Dense(1, dtype="float32"),
            ]
        )
    finally:
        keras.config.set_dtype_policy("float32")
    # Adam would make a step of what is left of gradients that are 0 but for rounding.
    model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=False)
    return model


def weights_after(model: Any) -> list[np.ndarray]:
    """Of a short training."""
    model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    weights: list[np.ndarray] = model.get_weights()
    return weights


@pytest.mark.parametrize("policy", sampled(["float32", "mixed_bfloat16"], "float32"))
def test_training_is_the_same(policy: str) -> None:
    """Whatever a layer's call is told, in half precision too, and only once for each."""
    kinds = (Block, lambda: keras.layers.Conv1D(6, 3, padding="same"), Block)
    plain, again = (model_of(*kinds, policy=policy) for _ in range(2))
    assert recompute(again) == (5, 0)
    assert recompute(again) == (0, 0)
    for one, other in zip(weights_after(plain), weights_after(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_what_a_second_call_would_change_is_left_out() -> None:
    """Moving averages and draws; of a layer that holds such a one, those beside it are
    taken. They are drawn, and averaged, once a step, as without."""
    kinds = (lambda: Block(dropout=0.5), keras.layers.BatchNormalization)
    plain, again = (model_of(*kinds) for _ in range(2))
    marked, left_out = recompute(again)
    assert marked > 2
    assert left_out >= 2
    for one, other in zip(weights_after(plain), weights_after(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@keras.saving.register_keras_serializable("recomputation")
class Looking(keras.layers.Layer):
    """A table of the layer's own, beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.layers.Dense(6)

    def build(self, shape: Any) -> None:
        """All variables, before the first step."""
        self.table = self.add_weight(shape=(5, 6))
        self.inner.build((*shape, 6))
        self.built = True

    def call(self, tokens: Any) -> Any:
        """Rows of the table."""
        return self.inner(keras.ops.take(self.table, tokens, axis=0))


@pytest.mark.parametrize("policy", sampled(["float32", "mixed_bfloat16"], "float32"))
@pytest.mark.parametrize("kind", sampled(["embedding", "own"], "embedding"))
def test_rows_of_a_table_are_left_out(kind: str, policy: str) -> None:
    """Their gradient is that of each time a row was taken, and Adam makes something else of
    the sum: of a token that comes twice, say."""

    def made() -> Any:
        keras.utils.set_random_seed(3)
        keras.config.set_dtype_policy(policy)
        try:
            table = keras.layers.Embedding(5, 6) if kind == "embedding" else Looking()
            layers = [keras.layers.Dense(8, "relu"), keras.layers.Flatten()]
            last = keras.layers.Dense(1, dtype="float32")
            model = keras.Sequential(
                [keras.Input((8,), dtype="int32"), table, *layers, last]
            )
        finally:
            keras.config.set_dtype_policy("float32")
        model.compile("adam", "mse", jit_compile=False)
        return model

    tokens = np.random.default_rng(1).integers(0, 5, (32, 8), "int32")
    found = (3, 1) if kind == "embedding" else (4, 0)  # what is inside is taken
    trained: list[list[np.ndarray]] = []
    for again in (False, True):
        model = made()
        if again:
            spec = (tf.TensorSpec([None, 8], tf.int32), tf.TensorSpec([None, 1]))
            assert recomputation.recompute(model, spec) == found
        model.fit(tokens, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        trained.append(model.get_weights())
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_layer_that_adds_a_loss_is_left_out() -> None:
    """The gradient of that loss would be lost; those in the layer are taken."""
    plain, again = (model_of(lambda: Block(adds=True)) for _ in range(2))
    marked, left_out = recompute(again)
    assert marked > 2
    assert left_out == 0
    assert not again.losses
    for one, other in zip(weights_after(plain), weights_after(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_weights_are_read_before_they_change() -> None:
    """Those that are computed with again, too, in the graph that TensorFlow makes of it."""
    model = model_of(lambda: Block(adds=True))
    recompute(model)
    context.enable_graph_collection()
    try:
        weights_after(model)
        collected = context.export_run_metadata()
    finally:
        context.disable_graph_collection()
    graphs = [one.post_optimization_graph.node for one in collected.function_graphs]
    (step,) = (nodes for nodes in graphs if any(one.op == UPDATE for one in nodes))
    assert sum(one.op == "ReadVariableOp" for one in step) > 2 * len(model.weights)
    assert not unordered(step)


UPDATE = "AssignSubVariableOp"


def unordered(nodes: Any) -> list[tuple[str, str]]:
    """Reads and updates of a variable of which either may come first."""
    inputs = {
        one.name: [name.lstrip("^").split(":")[0] for name in one.input]
        for one in nodes
    }

    def before(name: str) -> set[str]:
        seen, left = set[str](), [name]
        while left:
            new = set(inputs.get(left.pop(), ())) - seen
            seen |= new
            left += new
        return seen

    reads = [one for one in nodes if one.op == "ReadVariableOp"]
    return [
        (read.name, write.name)
        for write in nodes
        if write.op == UPDATE
        for read in reads
        if read.input[0] == write.input[0]
        and read.name not in before(write.name)
        and write.name not in before(read.name)
    ]


@pytest.mark.parametrize(
    "kind",
    sampled(["tensorflow", "function", "keras", "python"], "tensorflow", "python"),
)
def test_a_layer_that_draws_from_elsewhere_is_left_out(kind: str) -> None:
    """Its backward pass would be that of another mask; the layer in it is taken."""
    model = model_of(lambda: Drawing(kind))
    assert recompute(model)[0] == 3
    drawing = model.layers[0]
    assert "call" not in vars(drawing)
    assert "call" in vars(drawing.inner)


def test_gradients_are_those_of_the_mask_that_was_drawn() -> None:
    """Where the output is the mask times the weights, so is their gradient."""
    model = model_of(lambda: Drawing("tensorflow"))
    recompute(model)
    drawing = model.layers[0]
    drawing.inner.kernel.assign(np.eye(6, dtype="float32"))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = drawing(x)
        return out, tape.gradient(out, x)

    out, gradient = tf.function(step)(tf.ones((4, 8, 6)))
    np.testing.assert_array_equal(out, gradient)


def test_a_call_that_draws_all_the_same_ends_training() -> None:
    """Where it does another thing than when it was looked at."""
    model = model_of(lambda: Drawing("nothing"))
    recompute(model)
    model.layers[0].kind = "tensorflow"
    with pytest.raises(RuntimeError, match="draws or changes something"):
        weights_after(model)
