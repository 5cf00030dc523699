"""Scripts with a fault are told of it, by what was measured in them; the same without the
fault are told of nothing."""

from pathlib import Path

import pytest

from supervisor.core.advisories.rules import advise
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.wire.records.step_evidence import StepEvidence
from tests.support.attempts import Attempts
from tests.support.samples import sampled
from tests.support.zygote import Zygote

FIT = """
import sys, time
import keras, numpy as np, tensorflow as tf

FAULTY = sys.argv[1] == "faulty"
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 64)).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Busy(keras.callbacks.Callback):
    # Takes as long as a larger model's step would.
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05)


def model_of(*layers):
    made = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made
"""

INPUT_BOUND = """
def late(row):
    time.sleep(0.03)
    return row


def read(a, b):
    a = tf.numpy_function(late, [a], tf.float32)
    return tf.ensure_shape(a, (64,)), b


data = tf.data.Dataset.from_tensor_slices((x[:280], y[:280])).map(
    read, num_parallel_calls=None if FAULTY else 8
)
data = data.batch(4) if FAULTY else data.batch(4).prefetch(4)
model = model_of()
model.fit(data, epochs=2 if FAULTY else 1, verbose=0, callbacks=[] if FAULTY else [Busy()])
"""

RETRACING = """
class Anew(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if FAULTY or batch < 6:
            self.model.make_train_function(force=True)


model = model_of()
model.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=[Anew()])
"""

RETRACED_LOOP = """
model, optimizer = model_of(), keras.optimizers.SGD(0.01)


@tf.function
def step(a, b, number):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss * tf.cast(number, tf.float32)


for number in range(40):
    at = 8 * number
    step(x[at : at + 8], y[at : at + 8], number if FAULTY else tf.constant(number))
"""

FLOAT64 = """
class Mix(keras.layers.Layer):
    def __init__(self):
        super().__init__(dtype="float64" if FAULTY else None)

    def build(self, shape):
        self.kernel = self.add_weight(shape=(64, 8))

    def call(self, inputs):
        return keras.ops.matmul(inputs, self.kernel)


model = model_of(Mix())
model.fit(x, y, batch_size=16, verbose=0)
"""

NO_LOOK_IS_DUE = """
from trainers.fit import fit_run

fit_run.LOOK_SECONDS = 1e9
"""

CONVERTED = """
wide = np.random.default_rng(0).normal(size=(256, 64, 64))
if not FAULTY:
    wide = wide.astype("float32")
data = tf.data.Dataset.from_tensor_slices((wide, y[:256])).batch(64)
model = keras.Sequential(
    [keras.Input((64, 64)), keras.layers.Flatten(), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
model.fit(data, verbose=0)
"""

SCRIPTS = {
    "input_bound": INPUT_BOUND,
    "retracing": RETRACING,
    "retracing in a loop of its own": RETRACED_LOOP,
    "float64": FLOAT64,
    "converted_inputs": CONVERTED,
}


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """A run without anything to restore."""
    return Attempts(tmp_path / "run", {"rewind": ("out",)}, zygote=zygote)


def evidence(
    attempts: Attempts, body: str, argument: str, **environment: str
) -> StepEvidence | None:
    """What the script told last of its steps."""
    script = attempts.script(FIT + body)
    outcome = attempts.run(script, argument, environment=environment)
    assert outcome.code == 0, outcome.err
    telemetry = Telemetry(outcome.paths)
    telemetry.poll()
    return telemetry.view.evidence


def check_wait(found: StepEvidence) -> None:
    """Four rows of 30 ms each are 120 ms a batch, or more on a busy machine."""
    assert found.on_cpu
    assert found.wait_seconds / found.data_steps >= 0.12
    assert found.wait_seconds <= found.data_seconds <= found.seconds


@pytest.mark.parametrize("name", sampled(SCRIPTS, "input_bound"))
def test_a_fault_is_told_of_and_nothing_else(attempts: Attempts, name: str) -> None:
    """One advisory for the script that has the fault, none for the one that has not."""
    found = evidence(attempts, SCRIPTS[name], "faulty")
    told = [one.kind for one in advise(RunEvidence(steps=found))]
    assert told == [name.partition(" ")[0]], found
    if name == "input_bound":
        assert found is not None
        check_wait(found)
    again = Attempts(attempts.directory / "sound", attempts.options, 0, attempts.zygote)
    found = evidence(again, SCRIPTS[name], "sound")
    assert advise(RunEvidence(steps=found)) == (), found


def test_steps_that_trace_are_looked_at_one_by_one(attempts: Attempts) -> None:
    """However short they are: each counts."""
    found = evidence(attempts, NO_LOOK_IS_DUE + RETRACING, "faulty")
    assert found is not None
    assert found.traced_steps is not None
    assert found.steps - 2 <= found.traced_steps <= found.steps


@pytest.mark.slow
def test_what_a_callback_takes_is_no_wait(attempts: Attempts) -> None:
    """A pipeline that reads ahead while a callback works is not waited for."""
    found = evidence(attempts, INPUT_BOUND, "sound")
    assert found is not None
    assert found.data_steps >= 32
    assert found.wait_seconds / found.data_seconds < 0.25


@pytest.mark.parametrize("asked", sampled(["nothing", "no GPU", "a limit"], "nothing"))
def test_a_gpu_that_is_not_found(attempts: Attempts, asked: str) -> None:
    """Whoever asked for the processor does not miss one."""
    if asked == "a limit":
        attempts.options["memory_limit_bytes"] = 1 << 30
    environment = {"CUDA_VISIBLE_DEVICES": "-1"} if asked == "no GPU" else {}
    found = evidence(attempts, CONVERTED, "sound", **environment)
    assert found is not None
    here = Path("/dev/nvidiactl").exists()
    assert found.finds_no_gpu == (asked == "nothing" and not here)
