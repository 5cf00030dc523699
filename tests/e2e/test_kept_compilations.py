"""What XLA compiled, from attempt to attempt: the same bits, and no damage gets through."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.small_disk import fill, mounted
from tests.support.zygote import OTHER_BACKENDS, Zygote
from trainers.process.compilations.compilation_store import DOUBTED, SUFFIX
from trainers.process.compilations.kept_compilations import (
    CHANGED,
    DROPPED,
    NOT_KEPT,
    USED,
)

SCRIPT = """
import hashlib, json, os, signal
import keras, numpy as np
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(96, 8, 8, 3)).astype("float32")
y = (x.mean(axis=(1, 2, 3)) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((8, 8, 3)), layers.Conv2D(4, 3, activation="relu"),
    layers.BatchNormalization(), layers.Dropout(0.2), layers.Flatten(), layers.Dense(1),
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), jit_compile=True)


class Dies(keras.callbacks.Callback):
    seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen == int(os.environ.get("DIES_AT", -1)):
            import time
            time.sleep(2.5)  # the thread that keeps compilations looks once a second
            os.kill(os.getpid(), signal.SIGKILL)


history = model.fit(
    x, y, batch_size=16, epochs=3, validation_split=1 / 3, callbacks=[Dies()], verbose=0
)
weights = [np.asarray(v).tobytes() for v in model.variables + model.optimizer.variables]
print(hashlib.sha256(b"".join(weights)).hexdigest(), json.dumps(history.history))
"""


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras computes with JAX, which is told where its cache is when it is imported: no
    process has done so before."""
    if not (OTHER_BACKENDS / "jax").is_dir():
        pytest.skip("JAX is not here: make .venv/other-backends")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("PYTHONPATH", str(OTHER_BACKENDS))


def job(
    place: Path, zygote: Zygote | None, name: str, *, kept: Path | None
) -> Attempts:
    """One job; ``kept``: where its compilations are."""
    options = {
        "compilation_directory": None if kept is None else str(kept),
        "compilation_quota_bytes": 1 << 28,
        "snapshot_every_steps": 1,
    }
    return Attempts(place / name, options=options, zygote=zygote)


def attempt(one: Attempts, **environment: str) -> AttemptOutcome:
    """Its next."""
    return one.run(one.script(SCRIPT), environment=environment)


def notices(outcome: AttemptOutcome) -> list[str]:
    """What the person was told."""
    return [told["sentence"] for told in outcome.of(RecordKind.NOTICE)]


def used(outcome: AttemptOutcome) -> int | None:
    """How many compilations of before it was told of; None: of none."""
    told = [
        count for count in range(1, 200) if USED.format(count=count) in notices(outcome)
    ]
    return told[0] if told else None


def entries(kept: Path) -> list[Path]:
    """What is kept, the largest first."""
    found = kept.glob(f"*/*{SUFFIX}")
    return sorted(found, key=lambda path: path.stat().st_size, reverse=True)


def killed_once(one: Attempts) -> AttemptOutcome:
    """An attempt that dies in the second epoch, and the one that ends."""
    assert attempt(one, DIES_AT="6").code == -9
    return attempt(one)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["zygote", "jax"])
def test_cold_warm_and_without_end_alike(
    tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    """Weights, optimizer and History to the bit: a run without any cache, undisturbed;
    one that fills it and is killed; the next run, which finds all of it."""
    process = request.getfixturevalue(backend)
    kept = tmp_path / "kept"
    without = attempt(job(tmp_path, process, "without", kept=None))
    assert without.code == 0, without.err
    first = killed_once(job(tmp_path, process, "first", kept=kept))
    assert first.code == 0, first.err
    assert used(first)
    compiled = set(entries(kept))
    second = killed_once(job(tmp_path, process, "second", kept=kept))
    assert used(second) == len(compiled)
    assert list(tmp_path.glob("*/*/compilations/*")) == []  # copies are gone
    assert set(entries(kept)) == compiled  # nothing was compiled again
    assert without.out == first.out == second.out


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), 997):
        content[place] ^= 0x5A
    path.write_bytes(content)


def _replace(path: Path) -> None:
    other = next(one for one in path.parent.glob(f"*{SUFFIX}") if one != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["zygote", "jax"])
def test_damaged_entries_cost_a_compilation(
    tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    """Cut short, flipped, in another's place: the run goes on to the same bits."""
    process = request.getfixturevalue(backend)
    kept = tmp_path / "kept"
    good = attempt(job(tmp_path, process, "good", kept=kept))
    whole = len(entries(kept))
    assert whole
    damages: list[Callable[[Path], None]] = [_cut, _flip, _replace]
    for damage in damages:
        hurt = entries(kept)[0]
        damage(hurt)
        after = attempt(job(tmp_path, process, damage.__name__, kept=kept))
        assert (after.code, after.out) == (0, good.out), after.err
        assert used(after) == (whole - 1 or None)


@pytest.mark.slow
def test_an_attempt_that_dies_of_them_is_followed_by_one_that_compiles(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Whatever it was, it is not tried twice; and the next has them again."""
    kept = tmp_path / "kept"
    one = job(tmp_path, zygote, "job", kept=kept)
    good = attempt(one)
    (place,) = kept.iterdir()
    (place / DOUBTED).touch()  # as one leaves it that takes them and dies
    after = attempt(job(tmp_path, zygote, "after", kept=kept))
    assert (after.code, after.out, used(after)) == (0, good.out, None)
    assert DROPPED in notices(after)
    later = attempt(job(tmp_path, zygote, "later", kept=kept))
    assert (later.out, used(later)) == (good.out, 2)


@pytest.mark.slow
def test_a_full_disk_costs_the_next_attempt_a_compilation(
    tmp_path: Path, zygote: Zygote
) -> None:
    """The run itself goes on, and says so; where nothing can be made, too."""
    with mounted(tmp_path / "disk", "64k") as disk:
        kept = disk / "kept"
        fill(disk / "ballast")
        (tmp_path / "file").touch()
        for name, place in (("full", kept), ("none", tmp_path / "file" / "kept")):
            outcome = attempt(job(tmp_path, zygote, name, kept=place))
            assert outcome.code == 0, outcome.err
            (told,) = notices(outcome)
            assert told.endswith(NOT_KEPT.removeprefix("{}"))


@pytest.mark.slow
def test_a_cache_of_their_own_is_theirs(tmp_path: Path, zygote: Zygote) -> None:
    """Ours does not stand in its way."""
    kept, theirs = tmp_path / "kept", tmp_path / "theirs"
    one = job(tmp_path, zygote, "job", kept=kept)
    flags = f"--tf_xla_persistent_cache_directory={theirs}"
    outcome = attempt(one, TF_XLA_FLAGS=flags)
    assert outcome.code == 0, outcome.err
    assert list(theirs.glob("*.pb"))
    assert entries(kept) == []


def test_flags_of_theirs_stay(tmp_path: Path, zygote: Zygote) -> None:
    """Ours are added to them."""
    one = job(tmp_path, zygote, "job", kept=tmp_path / "kept")
    script = one.script(
        "import json, os, tensorflow\nprint(json.dumps(os.environ['TF_XLA_FLAGS']))\n"
    )
    flags = "--tf_xla_max_cluster_size=50"
    outcome = one.run(script, environment={"TF_XLA_FLAGS": flags})
    assert json.loads(outcome.out).startswith(f"{flags} --tf_xla_persistent_cache_")


def test_determinism_after_the_first_function_was_traced(
    tmp_path: Path, zygote: Zygote
) -> None:
    """What was compiled without it is neither found nor kept, and the run says so."""
    kept = tmp_path / "kept"
    script = (
        "import tensorflow as tf\n"
        "f = tf.function(lambda x: tf.sin(x) * 2.0, jit_compile=True)\n"
        "f(tf.ones(3))\n"
        "tf.config.experimental.enable_op_determinism()\n"
        "g = tf.function(lambda x: tf.cos(x) * 3.0, jit_compile=True)\n"
        "print(float(g(tf.zeros(3))[0]))\n"
    )
    one = job(tmp_path, zygote, "job", kept=kept)
    outcome = one.run(one.script(script))
    assert outcome.out == "3.0\n", outcome.err
    assert notices(outcome) == [NOT_KEPT.format(CHANGED)]
    assert entries(kept) == []


OWN_JAX = """
import json, os, pathlib, sys
import jax, jax.numpy as jnp
names = [
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
    "jax_persistent_cache_enable_xla_caches",
]
ours = [getattr(jax.config, name) for name in names]
jax.config.update(names[1], 7)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
after = [getattr(jax.config, name) for name in names]
jax.jit(lambda x: x * 2)(jnp.ones(3))
told = [name for name in os.environ if name.startswith(("JAX_COMP", "JAX_PERS"))]
there = pathlib.Path(sys.argv[1])
print(json.dumps([ours, after, told, there.exists() and len(list(there.iterdir()))]))
"""


@pytest.mark.usefixtures("jax")
def test_a_directory_that_a_script_gives_jax_has_the_scripts_settings(
    tmp_path: Path,
) -> None:
    """Ours hold while the directory is ours; children inherit nothing of them."""
    kept, theirs = tmp_path / "kept", tmp_path / "theirs"
    one = job(tmp_path, None, "job", kept=kept)
    script = one.script(OWN_JAX.replace("sys.argv[1]", repr(str(theirs))))
    outcome = one.run(script)
    assert outcome.code == 0, outcome.err
    ours, after, told, count = json.loads(outcome.out)
    assert ours == [0.0, -1, "none"]
    assert after[:2] == [1.0, 7]  # JAX' own default, and the script's
    assert after[2] != "none"
    assert (told, count) == ([], 0)  # too quick for JAX to keep it
    assert entries(kept) == []
