"""What a script draws without a seed: the same in each attempt of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.attempts import Attempts
from tests.support.zygote import Zygote
from trainers.process.script.run_entropy import RunEntropy

PYTHON = """
import json, multiprocessing, os, random, tempfile, uuid

def twice(draw):
    return [draw(), draw()]

def number():
    return random.random()

def generator():
    return np.random.default_rng().random()

out = {"random": twice(random.random), "Random": twice(lambda: random.Random().random())}
if "LIBRARY" in os.environ:  # draws more than in the attempt before
    exec("import numpy.random as n\\nn.default_rng()", {"__name__": "library"})
import numpy as np
out["hash"] = [hash("one"), hash("two")]
out["global"] = twice(np.random.rand)
out["default_rng"] = twice(generator)
out["SeedSequence"] = twice(lambda: str(np.random.SeedSequence().entropy))
out["RandomState"] = twice(lambda: np.random.RandomState().rand())
kinds = np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64
out["kinds"] = [float(np.random.Generator(kind()).random()) for kind in kinds]
np.random.seed()
random.seed()
out["seeded by nothing"] = [np.random.rand(), random.random()]
with multiprocessing.get_context("fork").Pool(1) as pool:
    out["forked"] = [pool.apply(number), pool.apply(generator)]
with multiprocessing.get_context("fork").Pool(1) as pool:
    out["forked"] += [pool.apply(number), pool.apply(generator)]
secrets = [uuid.uuid4().hex, random.SystemRandom().random(), os.urandom(4).hex()]
with tempfile.TemporaryDirectory() as name:
    secrets.append(name)
random.seed(5)
np.random.seed(5)
own = [random.random(), np.random.rand(), np.random.default_rng(5).random()]
with open("out.json", "w") as file:
    json.dump({"run": out, "secrets": secrets, "own": own}, file)
"""

TENSORFLOW = """
import json, os
import keras, numpy as np, tensorflow as tf

def twice(draw):
    return [np.asarray(draw()).tolist() for _ in range(2)]

@tf.function
def in_a_graph():
    return tf.random.uniform([2]), tf.random.normal([2])

if "DETERMINISTIC" in os.environ:
    tf.config.experimental.enable_op_determinism()
    generators = {}  # TensorFlow refuses to make them then
else:
    new = tf.random.Generator.from_non_deterministic_state
    generators = {
        "generator": twice(lambda: tf.random.get_global_generator().uniform([2])),
        "state": twice(lambda: new().state),
    }
data = tf.data.Dataset.range(8)
out = {
    "uniform": twice(lambda: tf.random.uniform([2])),
    "normal": twice(lambda: tf.random.normal([2], dtype="float64")),
    "int": twice(lambda: tf.random.uniform([9], maxval=1000, dtype="int32")),
    "truncated": twice(lambda: tf.random.truncated_normal([2])),
    "gamma": twice(lambda: tf.random.gamma([2], [1.0, 5.0])),
    "poisson": twice(lambda: tf.random.poisson([9], [3.0, 40.0])),
    "categorical": twice(lambda: tf.random.categorical(tf.zeros([2, 9]), 9)),
    "shuffle": twice(lambda: tf.random.shuffle(tf.range(20))),
    "dropout": twice(lambda: tf.nn.dropout(tf.ones([50]), 0.5)),
    "graph": twice(in_a_graph),
    "keras": twice(lambda: keras.random.normal([2])),
    "layer": twice(lambda: keras.layers.Dropout(0.5)(tf.ones([50]), training=True)),
    "initializer": twice(lambda: keras.initializers.GlorotUniform()((2, 2))),
    "data": twice(lambda: list(data.shuffle(8))),
    "epochs": (lambda shuffled: twice(lambda: list(shuffled)))(data.shuffle(8)),
    "random data": twice(lambda: list(tf.data.Dataset.random().take(2))),
}
tf.random.set_seed(5)
own = twice(lambda: tf.random.uniform([2])) + twice(lambda: tf.random.shuffle([1, 2, 3]))
keras.utils.set_random_seed(5)
own += twice(lambda: keras.random.normal([2]))
own += twice(tf.function(lambda: tf.random.normal([2])))
own += twice(lambda: tf.random.normal([2], seed=4))
with open("out.json", "w") as file:
    json.dump({"run": out, "own": own, "generators": generators}, file)
"""


def drawn(
    directory: Path,
    text: str,
    *,
    zygote: Zygote | None,
    plain: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """What the script drew in an attempt of a run of its own."""
    attempts = Attempts(directory, zygote=zygote)
    directory.mkdir()
    ended = attempts.run(attempts.script(text), plain=plain, **more)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads((directory / "out.json").read_text())
    return found


def test_attempts_draw_the_same_and_runs_do_not(tmp_path: Path) -> None:
    """Python's and NumPy's generators; a library that draws once more, a child that is
    forked; what the system draws is left alone, and the script's own seed wins."""
    one, two = "1", "2"
    runs = {
        "first": drawn(tmp_path / "a", PYTHON, zygote=None, environment=seeded(one)),
        "again": drawn(
            tmp_path / "b", PYTHON, zygote=None, environment=seeded(one, LIBRARY="1")
        ),
        "other": drawn(
            tmp_path / "c", PYTHON, zygote=None, environment=seeded(two), seed=21
        ),
        "plain": drawn(
            tmp_path / "d", PYTHON, zygote=None, environment=seeded(two), plain=True
        ),
    }
    first, again = runs["first"], runs["again"]
    assert first["run"] == again["run"]
    for name, values in first["run"].items():
        assert len(set(values)) == len(values), name
        assert values != runs["other"]["run"][name]
    assert not set(first["secrets"]) & set(again["secrets"])
    assert all(run["own"] == runs["plain"]["own"] for run in runs.values())


def seeded(hash_seed: str, **more: str) -> dict[str, str]:
    """As a launcher sets it."""
    return {"PYTHONHASHSEED": hash_seed, **more}


def test_tensorflow_and_keras_draw_the_same(tmp_path: Path, zygote: Zygote) -> None:
    """Eager and in graphs, generators, initializers, shuffles that differ by epoch. A
    seed of the script's own gives what it gives without us."""
    first = drawn(tmp_path / "a", TENSORFLOW, zygote=zygote)
    again = drawn(tmp_path / "b", TENSORFLOW, zygote=zygote)
    plain = drawn(tmp_path / "c", TENSORFLOW, zygote=zygote, plain=True)
    assert first["run"] == again["run"]
    for name, (one, two) in first["run"].items():
        assert one != two, name
    assert first["generators"] == again["generators"]
    assert first["own"] == again["own"] == plain["own"]


@pytest.mark.slow
def test_tensorflow_and_keras_draw_by_the_run(tmp_path: Path, zygote: Zygote) -> None:
    """Another run draws something else; with deterministic operations, which refuse to
    draw without a seed otherwise, the same as without."""
    first = drawn(tmp_path / "a", TENSORFLOW, zygote=zygote)
    other = drawn(tmp_path / "b", TENSORFLOW, zygote=zygote, seed=21)
    fixed = drawn(
        tmp_path / "c", TENSORFLOW, zygote=zygote, environment={"DETERMINISTIC": "1"}
    )
    assert first["run"] == fixed["run"]
    for name, (one, _) in first["run"].items():
        assert one != other["run"][name][0], name
    assert first["generators"] != other["generators"]
    assert first["own"] == other["own"]


def test_bits_are_as_many_as_asked_for() -> None:
    """Whatever is no multiple of eight as well."""
    entropy = RunEntropy(7)
    for bits in (1, 7, 31, 32, 63, 128):
        numbers = [entropy.draw("x", bits=bits) for _ in range(200)]
        assert max(numbers) < 1 << bits
        assert max(numbers).bit_length() == bits


def test_counts_are_given_back() -> None:
    """What was drawn after them is drawn again."""
    entropy = RunEntropy(7)
    entropy.draw("x", bits=32)
    kept = entropy.counts()
    drawn = [entropy.draw("x", bits=32) for _ in range(3)]
    entropy.put_back(kept)
    assert [entropy.draw("x", bits=32) for _ in range(3)] == drawn


def test_what_asks_as_it_is_imported_is_no_state() -> None:
    """It may be imported before a restore in one process, and after it in another."""
    source = compile("drawn = entropy.draw('x', bits=32)", "library.py", "exec")
    found = []
    for imported_before in (False, True):
        entropy = RunEntropy(7)
        library = {"__name__": "library", "entropy": entropy}
        if imported_before:
            exec(source, library)  # noqa: S102  # as an import does
        assert entropy.counts() == {}
        entropy.put_back({})
        if not imported_before:
            exec(source, library)  # noqa: S102  # as above
        found.append(library["drawn"])
        exec(source, {**library, "__name__": "__main__"})  # noqa: S102  # as above
        assert entropy.counts() == {"x __main__:<module>": 1}
    assert found[0] == found[1]


def test_children_draw_on_their_own() -> None:
    """Each fork begins anew, by its number; a fork of a fork as well."""
    found = []
    for forks in ((), (1,), (2,), (1, 1)):
        entropy = RunEntropy(7)
        for count in forks:
            for _ in range(count):
                entropy.about_to_fork()
            entropy.forked()
        found.append(entropy.draw("x", bits=32))
    assert len(set(found)) == len(found)
