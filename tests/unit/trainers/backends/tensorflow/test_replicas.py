"""Training on several devices of one process, which here are parts of the CPU."""

from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.zygote import Zygote

DEVICES = """
import hashlib, json, os, sys
import numpy as np
import keras
import tensorflow as tf
from trainers.process import attempt_reporting as attempt

def parts(count):
    cpus = tf.config.list_physical_devices("CPU")
    made = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpus[0], made)
    return [f"CPU:{number}" for number in range(count)]
"""
DATA = """
x = np.random.default_rng(0).normal(size=(90, 5)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
layers = keras.layers
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""
IN_SCOPE = (
    DEVICES
    + """
strategy = tf.distribute.MirroredStrategy(parts(int(os.environ.get("COUNT", "2"))))
"""
    + DATA
    + """
keras.utils.set_random_seed(4)


class Counting(keras.callbacks.Callback):
    '''Keeps a variable of which each replica has a part of its own.'''
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.parts = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        for number, part in enumerate(self.parts.values):
            part.assign_add(number + logs["loss"])
        if os.environ.get("DIE") == str(self.steps):
            attempt.current().wait_for_saver()  # so that the test knows what was saved
            os._exit(9)


with strategy.scope():  # the whole of it, as many do
    model = keras.Sequential([
        layers.Dense(8, "relu"), layers.BatchNormalization(), layers.Dropout(0.3),
        layers.Dense(2),
    ])
    model.compile("adam", loss, metrics=["accuracy"])
    counting = Counting()
    model.fit(x, y, batch_size=12, epochs=2, verbose=0, callbacks=[counting])
    seen = model.evaluate(x, y, verbose=0)

kept = [*model.variables, *model.optimizer.variables]
kept += [variable for metric in model.metrics for variable in metric.variables]
copies = [one.numpy() for variable in kept for one in variable._value.values]
own = [float(one) for one in counting.parts.values]
different = [
    variable.path for variable in kept
    if len({one.numpy().tobytes() for one in variable._value.values}) > 1
]
total = hashlib.sha256(b"".join(one.tobytes() for one in copies)).hexdigest()
print(json.dumps([total, own, counting.steps, seen, different]))
"""
)


def run(attempts: Attempts, text: str, **environment: str) -> AttemptOutcome:
    """The next attempt of this script."""
    return attempts.run(attempts.script(text), environment=environment)


def attempts_in(directory: Path, zygote: Zygote) -> Attempts:
    """Those of a run that saves every third step."""
    options = {"snapshot_every_steps": 3, "prove": True}
    return Attempts(directory, options, zygote=zygote)


def sentences(outcome: AttemptOutcome) -> list[str]:
    """What was told of it, of the promise and otherwise."""
    told = outcome.of(RecordKind.PROMISE) + outcome.of(RecordKind.NOTICE)
    return [fields["sentence"] for fields in told]


def test_each_replica_gets_its_own_state_back(tmp_path: Path, zygote: Zygote) -> None:
    """Moving statistics, metrics and a callback's variable differ by replica; a short
    last batch, and ``fit`` in the scope of the strategy. Another number of devices is
    refused, as nobody knows what a third replica would have: it is said what to do, and
    nothing is changed by that."""
    whole = run(attempts_in(tmp_path / "whole", zygote), IN_SCOPE)
    assert whole.code == 0, whole.err[-3000:]
    torn = attempts_in(tmp_path / "torn", zygote)
    assert run(torn, IN_SCOPE, DIE="8").code == 9  # with two snapshots: one is proved
    refused = run(torn, IN_SCOPE, COUNT="4")
    assert refused.code not in (0, 9)
    assert "trained on 4 devices at once, and was on 2" in refused.err
    assert "give it as many as before" in refused.err
    last = run(torn, IN_SCOPE)
    assert last.out == whole.out, last.err[-3000:]
    assert '"sequential/batch_normalization/moving_mean"' in whole.out  # they do differ
    assert sentences(last) == ["exact to the bit"]
    assert [one["result"] for one in last.of(RecordKind.PROOF)] == ["begun", "proved"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "data", "told"),
    [
        (
            "tf.distribute.MultiWorkerMirroredStrategy()",
            "data",
            "under MultiWorkerMirroredStrategy this run is watched and restarted, but its",
        ),
        (
            "tf.distribute.experimental.CentralStorageStrategy()",
            "data",
            "under CentralStorageStrategy this run is watched and restarted, but its fits",
        ),
        (
            "tf.distribute.MirroredStrategy(parts(2))",
            "strategy.experimental_distribute_dataset(data)",
            "the script distributes its training data itself",
        ),
        (
            "tf.distribute.MirroredStrategy(parts(2))",
            "data, validation_data=strategy.experimental_distribute_dataset(data)",
            "the script distributes its validation data itself",
        ),
    ],
)
def test_what_is_not_resumed_is_told_before_the_first_step(
    tmp_path: Path, zygote: Zygote, strategy: str, data: str, told: str
) -> None:
    """It trains as it would without us, and one sentence says what a restart costs."""
    text = f"""{DEVICES}
strategy = {strategy}
{DATA}
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(90).batch(12)
with strategy.scope():
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
    model.compile("sgd", loss)


class Begins(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0:
            print("step", flush=True)
            events = os.path.join(os.path.dirname(sys.argv[1]), "events.jsonl")
            assert {told!r} in open(events).read()


model.fit({data}, epochs=1, verbose=0, callbacks=[Begins()])
"""
    attempts = attempts_in(tmp_path, zygote)
    script = attempts.script(text)
    events = tmp_path / "attempt-1" / "events.jsonl"
    found = attempts.run(script, str(events))
    assert found.code == 0, found.err[-3000:]
    assert "step" in found.out
    assert [one for one in sentences(found) if told in one], sentences(found)


LOOP = f"""{DEVICES}
strategy = tf.distribute.MirroredStrategy(
    parts(2), cross_device_ops=tf.distribute.ReductionToOneDevice()
)
{DATA}
with strategy.scope():
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)


def on_one(x, y):
    with tf.GradientTape() as tape:
        cost = loss(y, model(x, training=True))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(cost, weights), weights))
    return cost


@tf.function
def step(x, y):
    return strategy.reduce("SUM", strategy.run(on_one, args=(x, y)), axis=None)


for _ in range(4):
    step(x[:12], y[:12])
"""


@pytest.mark.slow
def test_a_loop_of_its_own_is_not_followed(tmp_path: Path, zygote: Zygote) -> None:
    """Nobody would give each replica its state back: it is told with the first step."""
    attempts = attempts_in(tmp_path, zygote)
    found = attempts.run(attempts.script(LOOP), rewind=("out",))
    assert found.code == 0, found.err[-3000:]
    (told,) = sentences(found)
    assert "but not saved" in told
    assert "several devices by a strategy" in told
