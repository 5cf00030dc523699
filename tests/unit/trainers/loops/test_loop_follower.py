"""Loops of the script's own in real processes: recorded, resumed, or why not."""

import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_DRAINED
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.samples import sampled
from tests.support.zygote import Zygote

HEAD = """
import os, signal, sys, threading, time
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(3)])
optimizer = keras.optimizers.Adam(0.01)
x = np.random.rand(40, 4).astype("float32")
y = np.random.rand(40, 3).astype("float32")

@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

def die(number):
    asked = os.environ.get("DIE", "")
    if asked.rstrip("t") == str(number):
        time.sleep(0.5)  # what is being saved is on disk then
        os.kill(os.getpid(), signal.SIGTERM if asked.endswith("t") else signal.SIGKILL)

losses = []
"""
LOOP = """
for number in range(30):
    here = slice(number % 5 * 8, number % 5 * 8 + 8)
    MORE
    losses.append(float(step(x[here], y[here])))
    die(number)
"""
END = """
print(losses, [w.tolist() for w in model.get_weights()], file=open("result", "w"))
"""


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """A snapshot at every fourth step."""
    options = {"snapshot_every_steps": 4, "prove": True, "rewind": (".",)}
    return Attempts(tmp_path, options, zygote=zygote)


def script(attempts: Attempts, more: str = "pass", loop: str = LOOP) -> Path:
    """With ``more`` before each step."""
    return attempts.script(HEAD + loop.replace("MORE", more) + END)


def run(attempts: Attempts, path: Path, die: str = "", **more: Any) -> AttemptOutcome:
    """The next attempt, killed at step ``die``, or drained (``9t``)."""
    environment = {"DIE": die} if die else {}
    return attempts.run(path, environment=environment, **more)


def result(attempts: Attempts) -> str:
    """What the script left."""
    return (attempts.directory / "result").read_text()


def told(outcome: AttemptOutcome) -> list[tuple[bool, str]]:
    """What was promised."""
    return [(one["bits"], one["sentence"]) for one in outcome.of(RecordKind.PROMISE)]


EXACT = (True, "exact to the bit")


def test_a_loop_is_resumed_to_the_bit(attempts: Attempts) -> None:
    """Killed twice, drained once: as by plain Python, and proved on the way."""
    path = script(attempts)
    run(attempts, path, plain=True)
    expected = result(attempts)
    first = run(attempts, path, "14")
    assert told(first) == [EXACT]
    assert first.page.snapshot_step == 12
    assert [one["step"] for one in first.of(RecordKind.FIRST_STEP)] == [1]
    second = run(attempts, path, "22")
    (restored,) = second.of(RecordKind.RESTORED)
    assert restored["step"] == 12
    assert [one["result"] for one in second.of(RecordKind.PROOF)] == ["begun", "proved"]
    # It runs from its top: nobody should take its output for new steps.
    sentences = [one["sentence"] for one in second.of(RecordKind.NOTICE)]
    assert any("are answered from the record" in one for one in sentences), sentences
    drained = run(attempts, path, "25t")
    assert drained.code == EXIT_DRAINED, drained.err
    assert drained.of(RecordKind.DRAINED)[0]["step"] == 26
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert result(attempts) == expected
    assert last.page.step == 30
    again = [one["step"] for one in last.of(RecordKind.FIRST_STEP)]
    assert again == [25]  # the proof computes two steps again


GIVEN_UP = {
    "eager": ("tf.config.run_functions_eagerly(True)", "computed eagerly"),
    "tape": ("tape = tf.GradientTape(); tape.__enter__()", "a GradientTape is open"),
    "caught": (
        """
    try:
        number == 9 and step(x[:, :3], y)
    except ValueError:
        pass
""",
        "a call of a tf.function failed",
    ),
    "thread": (
        """
    if number == 9:
        looking = threading.Thread(target=lambda: float(optimizer.iterations))
        looking.start()
        looking.join()
""",
        "another thread",
    ),
    "called in a thread": (
        """
    if number == 9:
        other = threading.Thread(target=lambda: step(x[:8], y[:8]))
        other.start()
        other.join()
""",
        "another thread",
    ),
    "thread beside a step": (
        """
    if number == 9:
        other = threading.Thread(target=lambda: [float(step(x[:8], y[:8])) for _ in x])
        other.start()
    elif number == 29:
        other.join()
        losses.clear()  # which of them came first is nobody's
        model.set_weights([abs(w) * 0 for w in model.get_weights()])
        break
""",
        "another thread",
    ),
    "evaluate": (
        """
    if number == 9:
        model.compile("sgd", "mse")
        model.evaluate(x, y, callbacks=[keras.callbacks.Callback()], verbose=0)
""",
        "evaluate was given callbacks",
    ),
    "result": (
        """
    if number == 9:
        tf.function(lambda: tf.ragged.constant([[1.0], [1.0, 2.0]]))()
""",
        "RaggedTensor",
    ),
    "table": (
        """
    if number == 9:
        keys = tf.constant([1], tf.int64)
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        tf.function(lambda: (table.insert(keys, keys), keys)[1])()
""",
        "LookupTableInsert",
    ),
    "large": (
        """
    if number == 9:
        large = tf.function(lambda: tf.random.stateless_uniform([4, 1 << 20], [1, 2]))
        for _ in range(18):
            np.asarray(large()).sum()
""",
        "too much",
    ),
}


@pytest.mark.parametrize("what", sampled(GIVEN_UP, "thread"))
def test_what_cannot_be_recorded_is_told(attempts: Attempts, what: str) -> None:
    """Then, not after the crash; and the script ends as by plain Python."""
    more, because = GIVEN_UP[what]
    path = script(attempts, more)
    run(attempts, path, plain=True)
    expected = result(attempts)
    outcome = run(attempts, path)
    assert outcome.code == 0, outcome.err
    bits, sentence = told(outcome)[-1]
    assert not bits
    assert because in sentence
    assert "are watched and counted, but not saved" in sentence
    assert result(attempts) == expected


OTHER_WAYS = {
    "data": (
        "x[:] = np.frombuffer(os.urandom(40 * 4), 'uint8').reshape(40, 4)",
        "data",
    ),
    "call": (
        "if number > 2 and os.urandom(1)[0] % 2: tf.function(lambda: tf.constant(1))()",
        "called",
    ),
    "look": (
        "if number > 2 and os.urandom(1)[0] % 2: int(optimizer.iterations)",
        "was",
    ),
}


@pytest.mark.parametrize("way", sampled(OTHER_WAYS, "call"))
def test_a_replay_that_leaves_the_path_begins_anew(
    attempts: Attempts, way: str
) -> None:
    """What was answered cannot be computed any more: the process ends, and says so. The
    next computes everything, and saves nothing that would be left again."""
    more, because = OTHER_WAYS[way]
    path = script(attempts, more)
    run(attempts, path, "27")
    outcome = run(attempts, path)
    assert outcome.code == EXIT_DRAINED, outcome.err
    (proof,) = [one for one in outcome.of(RecordKind.PROOF) if one.get("ends")]
    assert "went another way" in proof["because"]
    assert because in proof["because"]
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert not last.of(RecordKind.RESTORED)
    assert not told(last)[-1][0]
    assert last.page.step == 30


@pytest.mark.slow
def test_a_script_that_ends_before_its_record_begins_anew(attempts: Attempts) -> None:
    """What it would leave behind was never computed."""
    more = "if 'SHORT' in os.environ and number > 2: break"
    path = attempts.script(HEAD + LOOP.replace("MORE", more))
    run(attempts, path, "14")
    outcome = attempts.run(path, environment={"SHORT": "1"})
    assert outcome.code == EXIT_DRAINED, outcome.err
    assert "it ended before" in str(outcome.of(RecordKind.PROOF))


@pytest.mark.slow
def test_a_file_that_is_gone_is_not_taken_for_there(attempts: Attempts) -> None:
    """A large state is not written again in a replay: it has to lie there."""
    large = "model.add(keras.layers.Dense(200_000)); y = np.zeros((40, 1), 'float32')"
    saves = "if number == 3: model.save_weights('w.weights.h5')"
    path = attempts.script(HEAD + large + LOOP.replace("MORE", saves) + "print(losses)")
    run(attempts, path, "14")
    (attempts.directory / "w.weights.h5").unlink()
    outcome = run(attempts, path)
    assert outcome.code == EXIT_DRAINED, outcome.err
    assert "w.weights.h5 is gone" in str(outcome.of(RecordKind.PROOF))


@pytest.mark.slow
@pytest.mark.parametrize("reads", [False, True])
def test_a_large_file_that_was_written_again(
    attempts: Attempts, *, reads: bool
) -> None:
    """It holds what is to come: bits are promised unless the script reads it before it
    writes it once more."""
    large = "model.add(keras.layers.Dense(200_000)); y = np.zeros((40, 1), 'float32')"
    more = "if number in (3, 13): WRITE"
    if reads:
        more = "if number == 13: model.load_weights('w.weights.h5')\n    " + more
    more = more.replace("WRITE", "model.save_weights('w.weights.h5')")
    path = attempts.script(HEAD + large + LOOP.replace("MORE", more) + "print(losses)")
    assert all(bits for bits, _ in told(run(attempts, path, "14")))
    second = run(attempts, path)
    assert second.code == 0, second.err
    assert second.of(RecordKind.RESTORED)[0]["step"] == 12
    assert all(bits for bits, _ in told(second)) is not reads
    if reads:
        assert "reads w.weights.h5" in told(second)[-1][1]


@pytest.mark.slow
def test_a_step_that_draws_is_resumed_without_a_promise(attempts: Attempts) -> None:
    """Stateful random operations: resumed, and said not to be exact before the kill."""
    draws = HEAD.replace("model(a, training=True)", "model(a + tf.random.normal([4]))")
    path = attempts.script(draws + LOOP.replace("MORE", "pass") + END)
    first = run(attempts, path, "14")
    assert not told(first)[0][0]
    second = run(attempts, path)
    assert second.code == 0, second.err
    assert second.of(RecordKind.RESTORED)[0]["step"] == 12
    assert not any(bits for bits, _ in told(second))


RESUMES_ITSELF = """
import json
start = 0
if os.path.exists("far.json"):
    start = json.load(open("far.json"))
    READ
for epoch in range(start, 6):
    for number in range(5):
        here = slice(number * 8, number * 8 + 8)
        losses.append(float(step(x[here], y[here])))
        die(5 * epoch + number)
    SAVE
    json.dump(epoch + 1, open("far.json", "w"))
    print(epoch, losses[-1], file=open("history.txt", "a"))
"""
CHECKPOINTS = """
manager = tf.train.CheckpointManager(
    tf.train.Checkpoint(model=model, optimizer=optimizer), "kept", max_to_keep=2
)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save", "read"),
    [
        (
            "model.save_weights('last.weights.h5')",
            "model.load_weights('last.weights.h5')",
        ),
        ("manager.save()", "manager.restore_or_initialize()"),
    ],
)
def test_a_loop_that_resumes_itself(attempts: Attempts, save: str, read: str) -> None:
    """It finds nothing of what its loop left: no epoch is left out, none done twice."""
    loop = CHECKPOINTS + RESUMES_ITSELF.replace("SAVE", save).replace("READ", read)
    path = script(attempts, loop=loop)
    for number in (13, 22):
        assert run(attempts, path, die=str(number)).code < 0
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert last.of(RecordKind.RESTORED)
    lines = (attempts.directory / "history.txt").read_text().splitlines()
    expected = result(attempts)
    whole = Attempts(
        attempts.directory / "whole", attempts.options, zygote=attempts.zygote
    )
    assert run(whole, script(whole, loop=loop)).code == 0
    assert expected == result(whole)
    assert lines == (whole.directory / "history.txt").read_text().splitlines()
    kept = sorted(
        one.name for one in attempts.directory.glob("kept/*") if "cut" not in one.name
    )
    assert kept == sorted(one.name for one in whole.directory.glob("kept/*"))
    assert not list(attempts.directory.glob(".*cut*"))


@pytest.mark.slow
def test_a_file_from_before_the_loop(attempts: Attempts) -> None:
    """What it held then is what the script finds again."""
    loop = RESUMES_ITSELF.replace("SAVE", "pass").replace("READ", "pass")
    path = script(attempts, loop=loop)
    for one in (attempts.directory, attempts.directory / "whole"):
        one.mkdir(exist_ok=True)
        (one / "far.json").write_text("2")
    assert run(attempts, path, die="22").code < 0
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert last.of(RecordKind.RESTORED)
    whole = Attempts(
        attempts.directory / "whole", attempts.options, zygote=attempts.zygote
    )
    assert run(whole, script(whole, loop=loop)).code == 0
    assert result(attempts) == result(whole)


@pytest.mark.slow
def test_what_cannot_be_put_aside(attempts: Attempts) -> None:
    """Somebody else has written the file since: the script goes by it, and is let."""
    loop = RESUMES_ITSELF.replace("SAVE", "pass").replace("READ", "pass")
    path = script(attempts, loop=loop)
    assert run(attempts, path, die="13").code < 0
    far = attempts.directory / "far.json"
    os.link(far, attempts.directory / "second-name")
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert not last.of(RecordKind.RESTORED)
    assert any("it reads " in text and "far.json" in text for _, text in told(last))
    assert result(attempts).count(",") > 20  # it made the epochs that were left


@pytest.mark.slow
def test_files_are_left_as_they_are(attempts: Attempts) -> None:
    """Then a replay from the top would go by what they hold: it is not followed."""
    attempts.options["rewind"] = ()
    outcome = run(attempts, script(attempts))
    ((bits, sentence),) = told(outcome)
    assert not bits
    assert "files.rewind" in sentence


@pytest.mark.slow
def test_calls_before_the_first_step(attempts: Attempts) -> None:
    """Gradients that are summed up by another compiled function."""
    loop = """
total = [tf.Variable(tf.zeros_like(one), trainable=False) for one in model.trainable_variables]

@tf.function
def add(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    for one, more in zip(total, tape.gradient(loss, model.trainable_variables)):
        one.assign_add(more)
    return loss

@tf.function
def apply():
    optimizer.apply_gradients(zip(total, model.trainable_variables))
    for one in total:
        one.assign(tf.zeros_like(one))

for number in range(30):
    for part in range(3):
        losses.append(float(add(x[part * 8 : part * 8 + 8], y[part * 8 : part * 8 + 8])))
    apply()
    die(number)
"""
    path = script(attempts, loop=loop)
    for number in (9, 21):
        assert run(attempts, path, die=str(number)).code < 0
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert last.of(RecordKind.RESTORED)
    whole = Attempts(
        attempts.directory / "whole", attempts.options, zygote=attempts.zygote
    )
    assert run(whole, script(whole, loop=loop)).code == 0
    assert result(attempts) == result(whole)


@pytest.mark.slow
def test_the_order_of_an_evaluation(attempts: Attempts) -> None:
    """Its data are shuffled as often as Keras begins them, which is more than once: each
    evaluation after a resume adds up its samples in the order in which it would have."""
    loop = """
model.compile(optimizer, "mse")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(40)
kept = data.batch(3)
for number in range(24):
    losses.append(float(model.train_on_batch(x[:8], y[:8])))
    if number % 4 == 3:
        losses.append(model.evaluate(kept, verbose=0))
        losses.append([float(b[0]) for _, b in data])
    die(number)
"""
    path = script(attempts, loop=loop)
    for number in (13, 18):
        assert run(attempts, path, die=str(number)).code < 0
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert last.of(RecordKind.RESTORED)
    whole = Attempts(
        attempts.directory / "whole", attempts.options, zygote=attempts.zygote
    )
    assert run(whole, script(whole, loop=loop)).code == 0
    assert result(attempts) == result(whole)
