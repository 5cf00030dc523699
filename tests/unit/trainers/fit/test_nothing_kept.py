"""What a script lets go of after a ``fit`` is gone as soon as it is without us.

A run that keeps a model or the data of each of its fits ends out of memory, in a loop over
folds or in a search for hyper-parameters, and it is us who killed it.
"""

import functools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts, read_result
from tests.support.zygote import Zygote

SCRIPT = """
import gc, json, os, signal, sys, weakref
import keras, numpy as np, tensorflow as tf

gc.disable()  # what is gone at once is gone without it
WIDTH, BATCH = 4, 8


class Array(np.ndarray):
    '''One that can be referred to weakly.'''


def array(*shape):
    made = np.ones(shape, "float32").view(Array)
    return made


class Own(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen, self.large = [], np.ones(100)

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(logs["loss"])


class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.stop_training = True


class Fail(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            raise ValueError("caught by the script")


class Die(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1 and "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y, **options):
        super().__init__(**options)
        self.x, self.y = x, y

    def __len__(self):
        return 3

    def __getitem__(self, index):
        part = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[part], self.y[part]


class Fold:
    '''Everything of one fit; what ``watch`` is given is referred to weakly.'''

    def __init__(self):
        self.x, self.y = array(20, WIDTH), array(20, 1)
        layers = [keras.Input((WIDTH,)), keras.layers.Dense(8), keras.layers.Dense(1)]
        self.model = keras.Sequential(layers)
        self.model.compile("adam", "mse")
        self.own = Own()
        self.watched = {}
        self.watch(x=self.x, y=self.y, model=self.model, callback=self.own)
        self.watch(layer=self.model.layers[0], kernel=self.model.layers[0].kernel)

    def watch(self, **things):
        self.watched.update({name: weakref.ref(one) for name, one in things.items()})

    def fit(self, *data, callbacks=(), **options):
        self.model.fit(*data, callbacks=[self.own, *callbacks], verbose=0, **options)

    def alive(self):
        return sorted(name for name, one in self.watched.items() if one() is not None)


def arrays(fold, **options):
    fold.fit(fold.x, fold.y, batch_size=BATCH, epochs=2, **options)


def batch_by_batch(fold):
    arrays(fold, shuffle="batch")


def weighted(fold):
    weights, other = array(20), array(8, WIDTH)
    fold.watch(weights=weights, other=other)
    arrays(fold, sample_weight=weights, validation_data=(other, array(8, 1)))


def callbacks(fold):
    given = [
        keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("loss"),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: fold.own.seen.append(e)),
    ]
    for one in given:
        fold.watch(**{type(one).__name__: one})
    arrays(fold, validation_split=0.25, callbacks=given)


def stopped(fold):
    arrays(fold, callbacks=[Stop()])


def failed(fold):
    fold.watched.pop("callback")  # the frames of an exception wait for the collector
    try:
        arrays(fold, callbacks=[Fail()])
    except ValueError:
        pass


def not_a_number(fold):
    fold.y[...] = np.nan
    arrays(fold, callbacks=[keras.callbacks.TerminateOnNaN()])


def between(fold):
    arrays(fold)
    fold.model.evaluate(fold.x, fold.y, verbose=0)
    fold.model.predict(fold.x, verbose=0)
    fold.model.train_on_batch(fold.x[:BATCH], fold.y[:BATCH])
    arrays(fold)


def local_classes(fold):
    class Mine(keras.layers.Layer):
        def call(self, inputs):
            return inputs + 0.0 * float(fold.x[0, 0])

    layers = [keras.Input((WIDTH,)), Mine(), keras.layers.Dense(1)]
    fold.model = keras.Sequential(layers)
    fold.model.compile("sgd", "mse")
    fold.watch(layer_class=Mine, model=fold.model)
    arrays(fold)


def pipeline(fold):
    data = tf.data.Dataset.from_tensor_slices((fold.x, fold.y)).shuffle(5).batch(BATCH)
    fold.watch(data=data)
    fold.fit(data, epochs=2)


def pipeline_of_unknown_batches(fold):
    def batches():
        for _ in range(3):
            yield np.ones((BATCH, WIDTH)), np.ones((BATCH, 1))

    signature = (tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None, 1]))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    fold.watch(data=data)
    fold.fit(data, epochs=2)


def generator(fold):
    def batches():
        while True:
            yield np.ones((BATCH, WIDTH)), np.ones((BATCH, 1))

    drawn = batches()
    fold.fit(drawn, steps_per_epoch=3, epochs=2)
    drawn.close()


def dataset(fold):
    fold.fit(Batches(fold.x, fold.y), epochs=2)


def dataset_with_workers(fold):
    fold.fit(Batches(fold.x, fold.y, workers=2), epochs=2)


def dies(fold):
    arrays(fold, callbacks=[Die()])


KINDS = [
    arrays, batch_by_batch, weighted, callbacks, stopped, failed, not_a_number, between,
    local_classes, pipeline, pipeline_of_unknown_batches, generator, dataset,
    dataset_with_workers, dies, arrays,
]
if "few" in sys.argv:
    KINDS = [arrays, failed, pipeline, dataset_with_workers]
left = {}
for number, kind in enumerate(KINDS):
    fold = Fold()
    kind(fold)
    watched, alive = fold.watched, fold.alive
    fold.model = fold.own = fold.x = fold.y = None
    at_once = alive()
    gc.collect()
    left[f"{number} {kind.__name__}"] = {"at once": at_once, "collected": alive()}
kind = type(iter(tf.data.Dataset.range(1)))
running = [one for one in gc.get_objects() if isinstance(one, kind)]
json.dump({"left": left, "iterators": len(running)}, open("left.json", "w"))
"""

Left = dict[str, dict[str, list[str]]]


def left(attempts: Attempts) -> tuple[Left, int]:
    """What was alive by kind of fit, after it and after a collection of garbage; and the
    iterators of pipelines that were there at the script's end."""
    found = read_result(attempts.directory / "left.json")
    return found["left"], found["iterators"]


Alone = Callable[..., tuple[Left, int]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Alone:
    """What Keras and TensorFlow keep without us, by the arguments of the script."""

    @functools.cache
    def run(*arguments: str) -> tuple[Left, int]:
        directory = tmp_path_factory.mktemp("alone")
        attempts = Attempts(directory / "run", zygote=zygote)
        outcome = attempts.run(attempts.script(SCRIPT), *arguments, plain=True)
        assert outcome.code == 0, outcome.err
        return left(attempts)

    return run


def check(attempts: Attempts, outcome: AttemptOutcome, alone: tuple[Left, int]) -> None:
    """That nothing is alive because of us.

    No iterator either: the threads of each are waited for, one after another, while the
    process ends. On a busy machine those of a search with 12 fits took half a minute.
    """
    assert outcome.code == 0, outcome.err
    (here, iterators), (usual, usual_iterators) = left(attempts), alone
    because_of_us = {
        f"{kind}, {when}": sorted(set(names) - set(usual[kind][when]))
        for kind, moments in here.items()
        for when, names in moments.items()
    }
    assert {when: names for when, names in because_of_us.items() if names} == {}
    assert here.keys() == usual.keys()
    assert iterators <= usual_iterators


OFTEN = {"memory_every_steps": 1, "snapshot_every_steps": 2}


def test_what_some_fits_drop_is_gone(
    tmp_path: Path, tmpfs: Path, zygote: Zygote, alone: Alone
) -> None:
    """As below, of the kinds that differ most."""
    options = {"memory_directory": str(tmpfs / "tier"), **OFTEN}
    attempts = Attempts(tmp_path / "run", options, zygote=zygote)
    outcome = attempts.run(attempts.script(SCRIPT), "few")
    check(attempts, outcome, alone("few"))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="as usual", marks=pytest.mark.slow),
        pytest.param(OFTEN, id="snapshots each step", marks=pytest.mark.slow),
        pytest.param({"slice_size": 3}, id="slices", marks=pytest.mark.slow),
    ],
)
def test_what_a_script_drops_is_gone(
    tmp_path: Path,
    tmpfs: Path,
    zygote: Zygote,
    alone: Alone,
    options: dict[str, Any],
) -> None:
    """Models, data, callbacks and classes, whatever kind of data a fit had: those that
    go by their references alone at once, as no array sets off a collection."""
    options = {"memory_directory": str(tmpfs / "tier"), **options}
    attempts = Attempts(tmp_path / "run", options, zygote=zygote)
    outcome = attempts.run(attempts.script(SCRIPT))
    check(attempts, outcome, alone())
    if "slice_size" in options:
        assert outcome.of(RecordKind.MICROBATCH)


@pytest.mark.slow
def test_what_is_given_back_is_gone_too(
    tmp_path: Path, tmpfs: Path, zygote: Zygote, alone: Alone
) -> None:
    """The fits that an attempt before has finished, and the one that it began."""
    options = {"memory_directory": str(tmpfs / "tier"), "snapshot_every_steps": 1}
    attempts = Attempts(tmp_path / "run", options, zygote=zygote)
    script = attempts.script(SCRIPT)
    killed = attempts.run(script, "die")
    assert killed.code == -signal.SIGKILL, killed.err
    outcome = attempts.run(script)
    check(attempts, outcome, alone())
    assert len(outcome.of(RecordKind.RESTORED)) > len(alone()[0]) // 2
