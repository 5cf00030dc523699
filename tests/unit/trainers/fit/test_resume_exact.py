"""A run that was killed ends bit-identical to one that was not.

Each scenario trains a script once undisturbed, then again through several deaths, and
compares everything the script leaves behind. (TensorFlow's start is what takes time:
few scenarios, each with many features.)
"""

import signal
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.page import Phase
from supervisor.wire.snapshots.manifest import TENSORS
from tests.support.attempts import AttemptOutcome, Attempts, read_result
from tests.support.zygote import Zygote

COMMON = '''
import collections, hashlib, json, os, random, signal, sys
import numpy as np
import keras
import tensorflow as tf
from trainers.process import attempt_reporting as attempt

def die(where):
    """What the test asked to happen at this place, e.g. ``batch:12:KILL``."""
    if os.environ.get("DIE") == where:
        attempt.current().wait_for_saver()  # so that the test knows what was saved
        kind = os.environ.get("HOW", "KILL")
        if kind == "RAISE":
            raise RuntimeError("the disk went away")
        if kind == "EXIT":
            os._exit(9)
        os.kill(os.getpid(), getattr(signal, "SIG" + kind))

class Die(keras.callbacks.Callback):
    """Dies at a place, and keeps state of many kinds."""
    def __init__(self, name):
        super().__init__()
        self.name, self.count, self.tests = name, 0, 0
        self.seen = shared_lists[name]
        self.recent = collections.deque(maxlen=3)
        self.rng = np.random.default_rng(1)
        self.noise = random.Random(2)
        self.best = np.inf
        self.average = None
        self.rates = {1: (0.5, "a")}
    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.seen.append([batch, float(logs["loss"]), float(self.rng.normal())])
        self.recent.append(self.noise.random())
        self.best = min(self.best, logs["loss"])
        weights = self.model.trainable_variables[0].numpy()
        self.average = weights if self.average is None else (self.average + weights) / 2
        die(f"{self.name}:batch:{self.count}")
    def on_test_batch_end(self, batch, logs=None):
        self.tests += 1
        die(f"{self.name}:test:{self.tests}")
    def on_epoch_end(self, epoch, logs=None):
        self.rates[epoch] = (logs["loss"], random.random(), float(np.random.rand()))
        die(f"{self.name}:epoch:{epoch}")

shared_lists = collections.defaultdict(list)
drawn = []

def digest(model):
    """Every variable of the model, optimizer and metrics, as one hash."""
    total = hashlib.sha256()
    for variable in [*model.variables, *model.optimizer.variables,
                     *(v for m in model.metrics for v in m.variables)]:
        total.update(np.asarray(variable).tobytes())
    return total.hexdigest()

def state(callback):
    return repr(sorted((k, v.tolist() if isinstance(v, np.ndarray) else str(v))
        for k, v in vars(callback).items()
        if isinstance(v, (int, float, str, list, tuple, dict, np.ndarray, np.generic,
                          collections.deque)) and k not in ("params", "filepath", "filename")))

def finish(**result):
    result["shared"] = shared_lists
    result["random"] = [random.random(), float(np.random.rand()),
                        float(tf.random.uniform([])), float(keras.random.uniform([]))]
    with open("result.json", "w") as file:
        json.dump(result, file, default=str)
'''

ARRAYS = (
    COMMON
    + """
keras.utils.set_random_seed(7)
rng = np.random.default_rng(0)
x = rng.normal(size=(203, 8)).astype("float32")
y = (x.sum(1) + rng.normal(size=203) > 0).astype("int32")

model = keras.Sequential([
    keras.layers.Dense(16, activation="relu"), keras.layers.BatchNormalization(),
    keras.layers.GaussianNoise(0.1), keras.layers.Dropout(0.3), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=7),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=0.01,
    restore_best_weights=True)
plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.2)
checkpoint = keras.callbacks.ModelCheckpoint("best.weights.h5", save_best_only=True,
    save_weights_only=True)
csv = keras.callbacks.CSVLogger("log.csv")
first = Die("first")
one = model.fit(x, y, batch_size=20, epochs=5, verbose=0, validation_split=0.2,
    callbacks=[stop, plateau, csv, checkpoint, first])
die("between")
between = model.evaluate(x, y, verbose=0, return_dict=True), float(np.random.rand())
schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.7)
second = Die("second")
two = model.fit(x, y, batch_size=32, epochs=4, initial_epoch=1, verbose=0,
    class_weight={0: 1.0, 1: 2.0}, validation_data=(x[:50], y[:50]),
    validation_freq=2, shuffle="batch",
    callbacks=[schedule, keras.callbacks.CSVLogger("log2.csv", append=True), second])
finish(weights=digest(model), history=[one.history, one.epoch, one.params,
    two.history, two.epoch], between=between, stopped=model.stop_training,
    callbacks=[state(c) for c in (stop, plateau, checkpoint, first, second)],
    csv=open("log.csv").read(), csv2=open("log2.csv").read(),
    again=model.history is two, iterations=int(model.optimizer.iterations))
"""
)

UNSEEDED = (
    COMMON
    + '''
rng = np.random.default_rng(0)
x = rng.normal(size=(203, 8)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
start = keras.initializers.GlorotUniform(3)
inner = keras.Input((8,))
model = keras.Model(inner, keras.layers.Dense(2, kernel_initializer=start)(
    keras.layers.Dropout(0.2, seed=5)(
        keras.layers.Dense(16, "tanh", kernel_initializer=start)(inner))))
model.compile(keras.optimizers.SGD(0.1, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"], jit_compile=True, steps_per_execution=4)
class Samples(keras.callbacks.Callback):
    """The weights after each step tell which samples it saw."""
    def __init__(self):
        super().__init__()
        self.trail = []
    def on_train_batch_end(self, batch, logs=None):
        self.trail.append([batch, digest(self.model)])
samples, only = Samples(), Die("only")
h = model.fit(x, y, batch_size=16, epochs=6, verbose=0, steps_per_epoch=9,
    callbacks=[keras.callbacks.BackupAndRestore("backup"), samples, only])
np.random.seed(1); random.seed(1); tf.random.set_seed(1); keras.utils.set_random_seed(1)
finish(weights=digest(model), history=[h.history, h.epoch], trail=samples.trail)
'''
)

PIPELINE = (
    COMMON
    + '''
keras.utils.set_random_seed(3)
x = np.arange(96 * 4, dtype="float32").reshape(96, 4) / 400
y = x.sum(1, keepdims=True)
both = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96)
train = both.skip(16).map(lambda a, b: (a * 2, b)).batch(10).prefetch(2)
held = both.take(16).batch(8)
class Own(keras.Model):
    """A model with its own step, metric, optimizer and variable."""
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.mean = keras.metrics.Mean("own")
        self.second = keras.optimizers.Adam(0.01)
        self.calls = keras.Variable(0.0, trainable=False)
        self.raw = tf.Variable(1.0)
    def call(self, inputs):
        return self.dense(inputs)
    def train_step(self, data):
        a, b = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(a, training=True) - b) ** 2)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.second.apply_gradients(zip(grads, self.trainable_variables))
        self.calls.assign_add(1.0)
        self.raw.assign(self.raw * 0.9)
        self.mean.update_state(loss)
        return {"loss": loss, "own": self.mean.result()}
model = Own()
model.compile(keras.optimizers.RMSprop(0.01), "mse")
model(x[:1])
model.second.build(model.trainable_variables)
only = Die("only")
h = model.fit(train, epochs=4, validation_data=held, verbose=0, callbacks=[only])
class Numbers(keras.utils.PyDataset):
    def __len__(self):
        return 6
    def __getitem__(self, index):
        drawn.append(index)
        return x[index * 16:][:16], y[index * 16:][:16]
last = Die("last")
g = model.fit(Numbers(), epochs=3, verbose=0, callbacks=[last])
finish(weights=digest(model), history=[h.history, g.history],
    own=[float(model.calls), float(model.raw), digest(model)],
    second=[v.numpy().tolist() for v in model.second.variables])
'''
)


def undisturbed(zygote: Zygote, directory: Path, text: str, *, plain: bool) -> object:
    """What the script leaves behind if nothing happens; ``plain``: unsupervised."""
    attempts = Attempts(directory, {"snapshot_every_steps": 4}, zygote=zygote)
    script = attempts.script(text)
    outcome = attempts.run(script, plain=plain)
    assert outcome.code == 0, outcome.err
    return read_result(directory / "result.json")


def dying(
    attempts: Attempts, script: Path, where: str, how: str = "KILL"
) -> AttemptOutcome:
    """An attempt that dies at ``where``."""
    return attempts.run(script, environment={"DIE": where, "HOW": how})


def restored(outcome: AttemptOutcome) -> list[tuple[int, int]]:
    """Fit and step of each state that was restored."""
    return [(r["fit"], r["step"]) for r in outcome.of(RecordKind.RESTORED)]


def test_arrays_and_callbacks_through_five_deaths(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Killed in an epoch, in validation, at the end of an epoch, between two fits and
    in the second one: weights, optimizer, History, callbacks, random states, CSV rows
    are those of the script run by plain Python."""
    expected = undisturbed(zygote, tmp_path / "whole", ARRAYS, plain=True)
    attempts = Attempts(tmp_path / "torn", {"snapshot_every_steps": 3}, zygote=zygote)
    script = attempts.script(ARRAYS)
    assert dying(attempts, script, "first:batch:5").code == -signal.SIGKILL
    two = dying(attempts, script, "first:test:5")  # validation of the second epoch
    assert (restored(two), two.page.phase) == ([(0, 3)], Phase.VALIDATING)
    three = dying(attempts, script, "first:epoch:2", "EXIT")
    assert restored(three) == [(0, 18)]  # the exact end of the second epoch
    four = dying(attempts, script, "between")
    assert restored(four) == [(0, 27)]
    done = four.of(RecordKind.FIT_ENDED)[0]["step"]
    five = dying(attempts, script, "second:batch:8", "TERM")
    assert restored(five) == [(0, done)]
    assert five.code == 75
    assert five.of(RecordKind.DRAINED)[0]["step"] == done + 8
    last = attempts.run(script)
    assert last.code == 0, last.err
    assert restored(last) == [(0, done), (1, done + 8)]
    assert read_result(attempts.directory / "result.json") == expected


@pytest.mark.slow
def test_unseeded_order_jit_and_several_steps_per_execution(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Without a seed the order is the job's own: new each time the data begin, and
    the same after a kill and after an exception; a user's BackupAndRestore changes
    nothing; the newest snapshot is damaged, so the one before it is used."""
    expected = undisturbed(zygote, tmp_path / "whole", UNSEEDED, plain=False)
    attempts = Attempts(tmp_path / "torn", {"snapshot_every_steps": 4}, zygote=zygote)
    script = attempts.script(UNSEEDED)
    one = dying(attempts, script, "only:batch:8", "RAISE")
    assert (one.code, one.crash.exception) == (1, "RuntimeError")
    assert (one.crash.in_fit, one.crash.message) == (True, "the disk went away")
    assert "trainers" not in one.crash.traceback
    newest = max(attempts.snapshots.glob("0*"))
    content = bytearray((newest / TENSORS).read_bytes())
    content[-1] ^= 1
    (newest / TENSORS).write_bytes(content)
    two = dying(attempts, script, "only:batch:14")
    was = two.of(RecordKind.RESTORED)[0]
    assert [damage["snapshot"] for damage in was["quarantined"]] == [newest.name]
    assert was["step"] < int(newest.name[:12])
    last = attempts.run(script)
    assert last.code == 0, last.err
    result = read_result(attempts.directory / "result.json")
    assert result == expected
    trail = [digest for _, digest in result["trail"]]
    assert len(set(trail)) == len(trail)


@pytest.mark.slow
def test_pipelines_own_train_step_and_datasets_by_index(
    tmp_path: Path, zygote: Zygote
) -> None:
    """A shuffled tf.data pipeline shared by training and validation, a model with its
    own step, optimizers and variables, and a PyDataset that is shuffled."""
    expected = undisturbed(zygote, tmp_path / "whole", PIPELINE, plain=False)
    attempts = Attempts(tmp_path / "torn", {"snapshot_every_steps": 3}, zygote=zygote)
    script = attempts.script(PIPELINE)
    dying(attempts, script, "only:batch:13")
    dying(attempts, script, "only:test:5")
    last = dying(attempts, script, "last:batch:10")
    assert [fit for fit, _ in restored(last)] == [0]
    last = attempts.run(script)
    assert last.code == 0, last.err
    assert [fit for fit, _ in restored(last)] == [0, 1]
    assert read_result(attempts.directory / "result.json") == expected
