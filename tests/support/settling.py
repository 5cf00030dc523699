"""Trainings that grow and settle, each in a process of its own: none is a leak."""

from dataclasses import dataclass
from pathlib import Path

from supervisor.wire.page import Page, read_page
from tests.support.command import Trainwarden
from tests.support.memory_scripts import HEAD

LIMIT = 256 * 2**20
"""Of CPU tensors."""
HOST_LIMIT = 1600 * 2**20
"""Of main memory, of which TensorFlow alone takes some 700 MiB."""

BEGIN = (
    HEAD
    + """
import collections, random

draw = random.Random(int(sys.argv[1]))
MOST = int(draw.uniform(0.5, 0.85) * 256)  # MiB in the end
STEPS = draw.randint(250, 400)
PACE = draw.uniform(0.008, 0.02)


def mib(number):
    '''So many MiB of tensors.'''
    return tf.fill([MIB // 4 * max(number, 1)], 1.0)


class Steps(keras.callbacks.Callback):
    '''Does something after each step.'''
    number = 0
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(PACE)
        Steps.number += 1
        after_step(Steps.number)


def after_step(number):
    pass


def train(data=None, **options):
    '''About STEPS steps.'''
    options = {'epochs': max(STEPS // 40, 1), 'callbacks': [Steps()], 'verbose': 0} | options
    return model.fit(*((x, y) if data is None else (data,)), batch_size=None if data else 16, **options)


def examples(count, width):
    '''So many examples, each of them wide.'''
    for index in range(count):
        yield np.full(width, index % 7, 'float32')


def wide(count, mib_each):
    '''A data set of which each element is large; the model sees eight numbers of it.'''
    width = int(mib_each * MIB / 4)
    signature = tf.TensorSpec([width], tf.float32)
    return tf.data.Dataset.from_generator(
        lambda: examples(count, width), output_signature=signature
    )


def narrow(data):
    return data.map(lambda row: (row[:8], row[0] > 3)).batch(16)

"""
)

KINDS = {
    "cache": """
# A cache that fills in the first epoch.
count = 40 * 16
data = narrow(wide(count, MOST / count).cache())
train(data)
""",
    "shuffle buffer": """
# A buffer that fills before, and while, the first steps are done.
count = 40 * 16
data = narrow(wide(count, MOST / 320).shuffle(320, seed=1))
train(data, epochs=5)
""",
    "prefetch": """
# Batches that wait, more and more of them.
data = wide(40 * 16, 0.25).batch(16).prefetch(MOST // 5).map(lambda b: (b[:, :8], b[:, 0] > 3))
train(data, epochs=6)
""",
    "first validation": """
# A validation after some epochs, in large batches, whose data stay in a cache.
check = narrow(wide(320, MOST / 700).cache())
train(validation_data=check, validation_freq=3)
""",
    "longer sequences": """
# Steps on sequences that get longer up to a length, and the newest outputs are kept.
kept = collections.deque(maxlen=4)
def after_step(number):
    length = min(1 + number // 6, MOST // 9)
    kept.append(mib(length))
    tf.reduce_sum(mib(length) * 2.0)
train()
""",
    "window": """
# The newest outputs, for a plot.
kept = collections.deque(maxlen=MOST * 2)
def after_step(number):
    for _ in range(4):
        kept.append(tf.fill([MIB // 8], float(number)))
train()
""",
    "collected in an epoch": """
# Predictions that are collected until the end of each epoch.
class Collect(keras.callbacks.Callback):
    kept = []
    def on_train_batch_end(self, batch, logs=None):
        self.kept.append(mib(MOST // 40))
    def on_epoch_end(self, epoch, logs=None):
        self.kept.clear()
train(callbacks=[Steps(), Collect()])
""",
    "more metrics": """
# Trained on with more and larger metrics, and an optimizer with more state.
train(epochs=max(STEPS // 80, 1))
model.compile("adamw", "binary_crossentropy", metrics=[
    keras.metrics.AUC(num_thresholds=200_000, from_logits=True, name=f"auc{n}") for n in range(MOST // 12)
])
train(epochs=max(STEPS // 80, 1))
""",
    "best weights": """
# A wide layer, and its best weights so far.
model = keras.Sequential([
    keras.Input((8,)), layers.Dense(MOST * 3000, activation="relu"), layers.Dense(1),
])
model.compile(keras.optimizers.SGD(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
train(epochs=4, validation_split=0.1, callbacks=[
    Steps(), keras.callbacks.EarlyStopping(restore_best_weights=True, patience=99),
])
""",
    "arrays of the host": """
# A cache of arrays in main memory that has its own limit.
cache = collections.OrderedDict()
def after_step(number):
    for part in range(4):
        cache[number * 4 + part] = np.full(MIB // 4, number, 'float32')
    while len(cache) > MOST * 2:
        cache.popitem(last=False)
train()
""",
}
"""What grows, by name: half to nine tenths of the limit in the end."""

END = "json.dump(len(model.get_weights()), open('done.json', 'w'))\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One run, and what was made of it."""

    kind: str
    seed: int
    code: int
    steps: int
    peak_part: float
    """Of the limit of tensors."""
    rss_part: float
    """Of the limit of main memory, at the end."""
    happened: tuple[str, ...]
    """Its incidents but warnings."""
    out: str


def settle(trainwarden: Trainwarden, kind: str, seed: int) -> Settled:
    """Run a training of this kind to its end, supervised."""
    script = trainwarden.script(BEGIN + KINDS[kind] + END)
    spec = trainwarden.directory / "job.toml"
    spec.write_text(
        f'script = "{script}"\nname = "train"\nargs = ["{seed}"]\n'
        f"[memory]\ncpu = {LIMIT}\nhost = {HOST_LIMIT}\n"
    )
    done = trainwarden("run", "--spec", spec)
    incidents = trainwarden.json("incidents")
    page = _last_page(trainwarden.state)
    return Settled(
        kind=kind,
        seed=seed,
        code=done.returncode,
        steps=page.step or 0,
        peak_part=(page.memory_peak_bytes or 0) / LIMIT,
        rss_part=(page.host_rss_bytes or 0) / HOST_LIMIT,
        happened=tuple(
            f"{one['happened']} {one['cause']}"
            for one in incidents
            if one["happened"] in {"ended", "planned"}
        ),
        out=done.stdout,
    )


def _last_page(state: Path) -> Page:
    """Of the newest attempt."""
    *_, newest = sorted(state.rglob("page"))
    page = read_page(newest)
    assert page is not None
    return page
