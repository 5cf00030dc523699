"""Functions of a pipeline that draw without a seed: the same in each attempt of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import json, os
import keras, numpy as np, tensorflow as tf

if "DETERMINISTIC" in os.environ:
    tf.config.experimental.enable_op_determinism()

def image(number):
    pixels = tf.image.random_flip_left_right(tf.ones([4, 4, 3]))
    pixels = tf.image.random_crop(tf.image.random_brightness(pixels, 0.2), [3, 3, 3])
    if tf.random.uniform([]) > 0.5:
        pixels += tf.random.normal([3, 3, 3])
    return tf.reduce_sum(pixels) + tf.random.uniform([])

def loop(number):
    total = 0.0
    for _ in tf.range(3):
        total += tf.random.uniform([])
    return total

@tf.function
def function(number):
    return tf.random.uniform([])

def both(one, two):
    return tf.random.uniform([]) + tf.random.uniform([]) * 0

def draw(number):
    return tf.random.uniform([])

data = tf.data.Dataset.range(12)
exact = {
    "plain": data.map(draw),
    "another": data.map(draw),
    "lambda": data.map(lambda number: tf.random.normal([])),
    "parallel": data.map(image, num_parallel_calls=4),
    "tuple": tf.data.Dataset.zip((data, data)).map(both),
    "dict": data.map(lambda n: {"n": n}).map(lambda of: tf.random.normal([])),
    "batch": data.batch(3).map(lambda numbers: tf.random.uniform([])),
    "around": data.shuffle(12).map(draw).shuffle(4).repeat(2).prefetch(2),
}
others = {"loop": data.map(loop), "function": data.map(function)}

def epochs(pipeline):
    return [[float(value) for value in pipeline] for _ in range(2)]

out = {name: epochs(pipeline) for name, pipeline in exact.items()}
for pipeline in others.values():
    epochs(pipeline)
out["cardinality"] = [[int(one.cardinality())] for one in exact.values()]
out["kept"] = [[float(v) for v in data.map(draw).cache().repeat(2)]]
out["after"] = epochs(data.map(draw))
with open("out.json", "w") as file:
    json.dump(out, file)
if "FIT" in os.environ:
    x = tf.data.Dataset.from_tensor_slices((np.ones((12, 4)), np.ones(12)))
    draws = {"draws": image, "loops": loop}[os.environ["FIT"]]
    add = lambda a, b: (a + tf.cast(draws(a), a.dtype), b)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x.map(add).batch(4), verbose=0)
"""


def drawn(directory: Path, zygote: Zygote, **options: Any) -> dict[str, Any]:
    """What the pipelines gave, and the promises of the run."""
    attempts = Attempts(directory, zygote=zygote)
    directory.mkdir()
    ended = attempts.run(attempts.script(SCRIPT), **options)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads((directory / "out.json").read_text())
    promises = [fields["sentence"] for fields in ended.of(RecordKind.PROMISE)]
    return {"drawn": found, "promises": promises}


def test_pipelines_draw_the_same_in_each_attempt(
    tmp_path: Path, zygote: Zygote
) -> None:
    """In parallel as well, and with deterministic operations; each sample and each epoch
    something else. A cache keeps its own."""
    first = drawn(tmp_path / "a", zygote, environment={"FIT": "draws"})
    again = drawn(tmp_path / "b", zygote)
    other = drawn(tmp_path / "c", zygote, seed=21)
    fixed = drawn(tmp_path / "d", zygote, environment={"DETERMINISTIC": "1"})
    values = first["drawn"]
    assert values == again["drawn"] == fixed["drawn"]
    assert values.pop("cardinality") == [[12]] * 6 + [[4], [24]]
    (kept,) = values.pop("kept")
    assert kept[:12] == kept[12:]
    everything = [
        one for epochs in values.values() for epoch in epochs for one in epoch
    ]
    assert len(set(everything)) == len(everything)
    for name, epochs in values.items():
        assert epochs[0] != other["drawn"][name][0]
    assert first["promises"] == ["exact to the bit"]


@pytest.mark.slow
def test_what_cannot_be_seeded_is_told(tmp_path: Path, zygote: Zygote) -> None:
    """A loop would draw the same each time round: it stays as it is, before training."""
    told = drawn(tmp_path / "a", zygote, environment={"FIT": "loops"})["promises"]
    assert ["without a seed" in sentence for sentence in told] == [True]


@pytest.mark.slow
def test_a_plain_run_is_left_alone(tmp_path: Path, zygote: Zygote) -> None:
    """A seed of the script's own gives what it gives without us."""
    values = []
    for name, plain in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        attempts = Attempts(tmp_path / name, zygote=zygote)
        text = SCRIPT.replace("data = ", "keras.utils.set_random_seed(4)\ndata = ", 1)
        fixed = {"DETERMINISTIC": "1"}  # in parallel it draws as it happens otherwise
        ended = attempts.run(attempts.script(text), plain=plain, environment=fixed)
        assert ended.code == 0, ended.err
        values.append((tmp_path / name / "out.json").read_text())
    assert values[0] == values[1]


FITTED = """
import json, sys
import keras, numpy as np, tensorflow as tf

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
for _ in range(int(sys.argv[1])):
    model.evaluate(x, y, verbose=0)
    model.predict(x, verbose=0)
drawn = tf.data.Dataset.range(4).map(lambda number: tf.random.uniform([]))
print(json.dumps([float(one) for one in drawn]))
"""


@pytest.mark.slow
def test_pipelines_of_keras_count_nowhere(tmp_path: Path, zygote: Zygote) -> None:
    """How many of them a process makes depends on where it resumed: the script's own
    draw the same all the same."""
    attempts = Attempts(tmp_path, zygote=zygote)
    script = attempts.script(FITTED)
    once, often = (attempts.run(script, times) for times in ("1", "3"))
    assert once.out, once.err
    assert once.out.splitlines()[-1] == often.out.splitlines()[-1]
