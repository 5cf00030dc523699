"""What microbatching finds out about a model, tells, and leaves alone."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.sliced_models import BATCH, SIZE, X, Y, compiled, dense, prepare
from trainers.backends.memory.allocator_figures import PeakReading
from trainers.backends.selected import backend
from trainers.microbatch import obstacles, preconditions
from trainers.microbatch import prepare as microbatch
from trainers.process.allocation_subject import watch


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test makes functions of its own: TensorFlow's hint about that is noise."""
    tf.get_logger().setLevel("ERROR")
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


def with_noise() -> Any:
    """Layers that see, or draw, other things in slices."""
    body = [layers.BatchNormalization(name="norm"), layers.Dropout(0.5, name="drop")]
    return compiled(keras.Sequential([keras.Input((12,)), *body, layers.Dense(1)]))


def test_layers_that_deviate_are_named() -> None:
    """BatchNormalization and Dropout are told in the record, by their names."""
    _, events = prepare(with_noise(), X, Y, allow_inexact=True)
    statistics, noise = events[0][1]["deviations"]
    assert statistics.startswith("layer 'norm' (BatchNormalization) keeps statistics")
    assert noise.startswith("layer 'drop' (Dropout) draws random numbers")


def test_layers_of_a_class_are_told_once() -> None:
    """A dozen of them with their number and the first names, not a dozen sentences."""
    norms = [layers.BatchNormalization(name=f"norm_{index}") for index in range(12)]
    model = compiled(keras.Sequential([keras.Input((12,)), *norms, layers.Dense(1)]))
    _, events = prepare(model, X, Y, allow_inexact=True)
    assert events[0][1]["deviations"] == [
        (
            "12 layers of BatchNormalization (norm_0, norm_1, norm_2, …) keep statistics of"
            " what they are given: they are given slices"
        )
    ]


def test_deviations_can_be_forbidden() -> None:
    """Where slices would deviate and may not, nothing is changed and one says why."""
    model = with_noise()
    with pytest.raises(obstacles.MicrobatchRefusedError, match="'norm'"):
        prepare(model, X, Y)
    assert "train_step" not in vars(model)


def test_a_frozen_layer_does_not_deviate() -> None:
    """BatchNormalization that is not trained works the same in slices."""
    norm = layers.BatchNormalization(trainable=False)
    model = compiled(keras.Sequential([keras.Input((12,)), norm, layers.Dense(1)]))
    _, events = prepare(model, X, Y)
    assert events[0][1]["deviations"] == []


class Centred(layers.Layer):
    """What a sample becomes depends on the others."""

    def call(self, inputs: Any) -> Any:
        """The inputs less their mean over the batch."""
        return inputs - keras.ops.mean(inputs, axis=0)


def test_coupled_activations_are_told() -> None:
    """A layer of the user's that mixes samples is found out by what it does."""
    model = compiled(keras.Sequential([keras.Input((12,)), Centred(), layers.Dense(1)]))
    _, events = prepare(model, X, Y, allow_inexact=True)
    (sentence,) = events[0][1]["deviations"]
    assert "depends on the other samples" in sentence


class Stepping(keras.Model):
    """Has a train step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        """Keras' own, but who knows."""
        return super().train_step(data)


def test_what_cannot_be_sliced_is_said() -> None:
    """A model with its own train_step, or a fixed batch, is left alone, with a word."""
    fixed = compiled(
        keras.Sequential([keras.Input(batch_shape=(50, 12)), layers.Dense(1)])
    )
    for model, word in ((compiled(Stepping()), "train_step"), (fixed, "exactly 50")):
        prepared, events = prepare(model, X, Y)
        assert prepared.slices == 1
        assert prepared.mode is None
        ((kind, fields),) = events
        assert kind == "notice"
        assert word in fields["sentence"]
        assert "make_train_function" not in vars(model)


class Propagating(layers.Layer):
    """Multiplies by a matrix that is as long as the batch, and as wide."""

    def call(self, inputs: Any) -> Any:
        """The matrix times the samples."""
        samples, matrix = inputs
        return keras.ops.matmul(matrix, samples)


def test_an_input_that_is_not_per_sample_is_named() -> None:
    """An adjacency matrix is cut with the samples: that the model cannot work with a part
    of it is no error of the script's. Where the whole never fitted that is told, too."""
    inputs = [keras.Input((12,)), keras.Input((BATCH,))]
    model = compiled(
        keras.Model(inputs, layers.Dense(1)(Propagating()(inputs))),
    )
    data = [X[:BATCH], np.eye(BATCH, dtype="float32")]
    prepared, ((kind, fields),) = prepare(model, data, Y[:BATCH])
    assert (prepared.slices, kind) == (1, "notice")
    assert "adjacency matrix" in fields["sentence"]
    assert "Matri" in fields["sentence"], "what the model said"
    assert "train_step" not in vars(model)
    wanted = {"calibrate": True, "slice_ceiling": BATCH, "hopeless": True}
    with pytest.raises(obstacles.MicrobatchRefusedError, match="mixed precision"):
        prepare(model, data, Y[:BATCH], **wanted)


def test_a_table_beside_the_batch_is_named() -> None:
    """Of another length than the samples: it cannot be cut where they are."""
    batch = (X[:8], Y[:8], np.ones((3, 2), "float32"))
    assert "shape (3, 2)" in str(preconditions.obstacle(compiled(dense()), batch))


def test_what_cannot_be_sliced_and_never_fitted_is_refused() -> None:
    """Where no step was ever done, another try with the same batch is not worth it."""
    for ceiling in (None, 50):
        model = compiled(Stepping())
        wanted = {"calibrate": True, "slice_ceiling": ceiling, "hopeless": True}
        if ceiling is None:
            prepared, _ = prepare(model, X, Y, **wanted)
            assert prepared.slices == 1
            continue
        with pytest.raises(obstacles.MicrobatchRefusedError) as caught:
            prepare(model, X, Y, **wanted)
        assert "a batch of 50 samples does not fit" in str(caught.value)
        assert "Stepping has a train_step of its own" in str(caught.value)
        assert "take a smaller batch in the script" in str(caught.value)


@pytest.mark.parametrize(
    ("hopeless", "noted"), [(True, OomSubject.BATCH), (False, None)]
)
def test_a_batch_that_finds_no_room_is_told(
    *, hopeless: bool, noted: OomSubject | None
) -> None:
    """Before any step was done; later something else may be in its way."""

    def first_batch() -> Any:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    watch.forget()
    with pytest.raises(tf.errors.ResourceExhaustedError):
        microbatch.prepare(
            compiled(dense()),
            slice_size=2,
            calibrate=False,
            slice_ceiling=4,
            memory_limit_bytes=None,
            allow_inexact=True,
            first_batch=first_batch,
            report=lambda *_, **__: None,
            hopeless=hopeless,
        )
    told, watch.last = watch.last, None
    assert (None if told is None else told.subject) is noted


def test_what_is_noted_on_the_way_is_known_better() -> None:
    """The state of the optimizer is made when a batch is tried out: that found no room."""
    model = compiled(dense())
    told = "OOM when allocating tensor"

    def build(_variables: Any) -> None:
        error = tf.errors.ResourceExhaustedError(None, None, told)
        watch.note(error, OomSubject.OPTIMIZER)
        raise error

    model.optimizer.build = build
    watch.forget()
    with pytest.raises(tf.errors.ResourceExhaustedError):
        prepare(model, X, Y, hopeless=True)
    noted, watch.last = watch.last, None
    assert noted is not None
    assert noted.subject is OomSubject.OPTIMIZER


class Large(layers.Layer):
    """It finds no room for more than ``most`` samples at once, where they are tried."""

    def __init__(self, most: int) -> None:
        super().__init__(name="large")
        self.most, self.tried = most, list[int]()

    def call(self, inputs: Any) -> Any:
        """As they are."""
        samples = inputs.shape[0]
        if tf.executing_eagerly():
            self.tried.append(samples)
            if samples > self.most:
                raise tf.errors.ResourceExhaustedError(
                    None, None, "OOM when allocating"
                )
        return inputs


def test_fewer_samples_are_tried_where_so_many_find_no_room() -> None:
    """Slices may be of one sample: that twelve do not fit says nothing of them."""
    layer = Large(most=3)
    model = compiled(keras.Sequential([keras.Input((12,)), layer, layers.Dense(1)]))
    _, events = prepare(model, X, Y, hopeless=True)
    assert layer.tried[:3] == [12, 4, 2]
    assert max(layer.tried[2:]) == 2
    assert events[0][1]["size"] == SIZE
    model = compiled(keras.Sequential([keras.Input((12,)), Large(1), layers.Dense(1)]))
    with pytest.raises(tf.errors.ResourceExhaustedError):
        prepare(model, X, Y, hopeless=True)
    told, watch.last = watch.last, None
    assert told is not None
    assert told.subject is OomSubject.BATCH


def test_without_a_plan_nothing_is_touched() -> None:
    """No slice and no calibration: the model is left as it is, the data unread."""
    model = compiled(dense())
    before = dict(vars(model))
    prepared = microbatch.prepare(
        model,
        slice_size=None,
        calibrate=False,
        slice_ceiling=None,
        memory_limit_bytes=None,
        allow_inexact=True,
        first_batch=lambda: pytest.fail("the data were read"),
        report=lambda *_, **__: pytest.fail("something was reported"),
    )
    prepared.restore()
    assert vars(model) == before
    assert (prepared.slices, prepared.size) == (1, None)


def fingerprint(model: Any) -> list[Any]:
    """All state that a look at the model must leave alone."""
    context_draw = tf.random.uniform([4]).numpy().tolist()
    variables = [*model.variables, *model.metrics_variables]
    return [
        [variable.numpy().tolist() for variable in variables],
        [variable.numpy().tolist() for variable in model.optimizer.variables],
        random.random(),  # noqa: S311  # a probe of the state
        np.random.rand(4).tolist(),  # noqa: NPY002  # a probe of the global state
        context_draw,
        keras.random.uniform((4,)).numpy().tolist(),
    ]


def test_looking_at_a_model_leaves_no_trace() -> None:
    """Weights, statistics, metrics, seeds and all random states are as before."""
    prints = []
    for look in (False, True):
        keras.utils.set_random_seed(7)
        model = with_noise()
        model.fit(X[:100], Y[:100], batch_size=BATCH, verbose=0)
        keras.utils.set_random_seed(8)
        if look:
            prepared, _ = prepare(model, X, Y, allow_inexact=True)
            prepared.restore()
        prints.append(fingerprint(model))
    assert prints[0] == prints[1]


def test_a_second_fit_does_not_trace_again() -> None:
    """fit in a loop over epochs uses the sliced train function made for the first."""
    traces = []

    class Counting(layers.Layer):
        def call(self, inputs: Any) -> Any:
            if not isinstance(inputs, keras.KerasTensor) and not tf.executing_eagerly():
                traces.append(1)
            return inputs

    model = compiled(
        keras.Sequential([keras.Input((12,)), Counting(), layers.Dense(1)])
    )
    counts = []
    for size in (SIZE, SIZE, 25):
        prepared, _ = prepare(model, X, Y, slice_size=size)
        model.fit(X, Y, batch_size=BATCH, verbose=0)
        prepared.restore()
        counts.append(len(traces))
    assert counts[0] > 0
    assert counts == counts[:1] * 3
    assert model.train_function is None
    assert "train_step" not in vars(model)


def test_without_figures_a_calibration_takes_half() -> None:
    """Where the allocator keeps no figures, at most half of what failed is the plan."""
    prepared, _ = prepare(
        compiled(dense()),
        X,
        Y,
        slice_size=None,
        calibrate=True,
        slice_ceiling=40,
        memory_limit_bytes=10**9,
    )
    assert (prepared.size, prepared.slices) == (17, 3)


def test_smaller_slices_are_told_and_not_made_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each step fills 99 % of the limit whatever its slices: they become smaller down to
    half of the first, each time with what they were and are; then they stay, said once."""
    mib = 2**20
    calls = itertools.count(990 * mib)

    def peak() -> PeakReading:
        return PeakReading(current_bytes=10 * mib, peak_bytes=next(calls))

    def figures(*, needed: bool) -> None:
        """The allocator keeps none."""

    monkeypatch.setattr(backend.slices, "peak", peak)
    monkeypatch.setattr(backend.slices, "figures", figures)
    model = compiled(dense())
    prepared, events = prepare(model, X, Y, memory_limit_bytes=1000 * mib)
    model.fit(X, Y, batch_size=BATCH, verbose=0, epochs=2)
    prepared.restore()
    told = [fields for kind, fields in events if kind == RecordKind.MICROBATCH]
    assert "near_limit" not in told[0]
    near = [NearLimit.from_json(one["near_limit"]) for one in told[1:]]
    assert all(one is not None and one.first_size == SIZE for one in near)
    sizes = [one.size for one in near if one is not None]
    assert sizes == [10, 9, 8, 7, 6, 6]
    assert [one.unsliced_bytes is None for one in near if one] == [True] * 5 + [False]
    notices = [fields for kind, fields in events if kind == RecordKind.NOTICE]
    assert len(notices) == 1
    assert notices[0]["sentence"].startswith(
        "The batch stays in 9 slices: more have not helped, as steps filled about 990 of"
        " the limit of 1000 MiB"
    )
    assert prepared.size == 6
