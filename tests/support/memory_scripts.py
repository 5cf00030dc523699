"""Scripts about memory, as people write them: under a limit on CPU tensors."""

from supervisor.wire.records.oom_subject import OomSubject

HEAD = """
import json, os, sys, time
import keras, numpy as np, tensorflow as tf
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(1),
])
model.compile(
    "adam", keras.losses.BinaryCrossentropy(from_logits=True),
    jit_compile=os.environ.get("JIT") == "1",
)
MIB = 2**20
"""

FRAGMENTING = (
    HEAD
    + """
directive = os.environ.get("TRAINWARDEN_DIRECTIVE", "")
answered = os.path.join(os.path.dirname(directive), "memory.json")


class Holes(keras.callbacks.Callback):
    '''Keeps every other of some blocks: what was between them is free, in pieces.'''
    kept = []
    def on_train_batch_end(self, batch, logs=None):
        ends = time.monotonic() + 60.0
        while "WAIT" in os.environ and os.path.exists(answered):
            time.sleep(0.02)  # the figures stay those of the step that was asked about
            if time.monotonic() > ends:
                del os.environ["WAIT"]
        if len(self.kept) < 40:
            blocks = [tf.zeros([MIB], tf.uint8) for _ in range(8)]
            self.kept += blocks[::2]
        time.sleep(0.02)


model.fit(x, y, batch_size=16, epochs=int(sys.argv[1]), callbacks=[Holes()], verbose=0)
"""
)
"""Every step leaves four holes of 1 MiB, until there are 40. With WAIT it stands still
once it has answered who asked for its map, until that answer is taken away."""

ENDING = """
weights = [w.tolist() for w in model.get_weights()]
json.dump([weights, history.history], open(sys.argv[1], "w"))
"""

LEAKING = (
    HEAD
    + """
kept = []


class Keeper(keras.callbacks.Callback):
    '''Forgets nothing.'''
    def on_train_batch_end(self, batch, logs=None):
        if os.environ.get("LEAK") == "tensors":
            kept.append(tf.fill([MIB // 8], float(batch)))  # half a MiB
            time.sleep(float(os.environ.get("PACE", "0.05")))


history = model.fit(
    x, y, batch_size=16, epochs=14, validation_split=0.2, callbacks=[Keeper()],
    verbose=0,
)
"""
    + ENDING
)
"""Keeps half a MiB of every step: 224 MiB in all, 10 MiB a second, or more with PACE."""

WIDE = """
def wide(units):
    '''A model whose step holds several tensors of 64 x units floats.'''
    built = keras.Sequential([
        keras.Input((8,)),
        layers.Dense(units, activation="relu"), layers.Dense(1),
    ])
    built.compile(
        "sgd", keras.losses.BinaryCrossentropy(from_logits=True),
        jit_compile=os.environ.get("JIT") == "1",
    )
    return built


class Pieces(keras.callbacks.Callback):
    '''After the second step most of the pool is free, in pieces of 1 MiB.'''
    kept = []
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            blocks = [tf.zeros([MIB], tf.uint8) for _ in range(BLOCKS)]
            self.kept += blocks[::2]


def grow(units, callbacks=()):
    wide(units).fit(x, y, batch_size=64, epochs=2, callbacks=list(callbacks), verbose=0)
"""

OUT_OF_MEMORY = {
    "capacity": HEAD + WIDE + "held = tf.zeros([60 * MIB], tf.uint8)\ngrow(150_000)\n",
    "oversize": HEAD + WIDE + "grow(1_000_000)\n",
    "fragmentation": HEAD + WIDE + "BLOCKS = 108\ngrow(40_000, [Pieces()])\n",
}
"""Under 128 MiB, with steps of 64 samples: tensors of 37, 244 and 10 MiB, by kind."""

FOR_OTHERS = """
import keras, numpy as np, tensorflow as tf
from keras import layers

keras.utils.set_random_seed(3)
rows = np.zeros((40_000, 1000), "float32")  # 153 MiB
x, y = np.zeros((64, 1000), "float32"), np.zeros((64, 1), "float32")


def fit(*hidden, optimizer="sgd", **more):
    model = keras.Sequential([*hidden, layers.Dense(1)])
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(x, y, batch_size=32, verbose=0, **more)


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.parts = [layers.Dense(8_000), layers.Dense(8_000), layers.Dense(1)]

    def call(self, inputs):
        for part in self.parts:
            inputs = part(inputs)
        return inputs


def own():
    model = Own()
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(x, y, batch_size=32, verbose=0)

"""

ASKED_FOR = {
    "weights": (
        OomSubject.WEIGHTS,
        "fit(keras.Input((1000,)), layers.Dense(8_000), layers.Dense(8_000))",
    ),
    "weights, made by the first step": (
        OomSubject.WEIGHTS,
        "fit(layers.Dense(8_000), layers.Dense(8_000))",
    ),
    "weights, and Keras went on": (OomSubject.WEIGHTS, "own()"),
    "optimizer": (
        OomSubject.OPTIMIZER,
        (
            "fit(keras.Input((1000,)), layers.Dense(20_000, kernel_initializer='zeros'),"
            " optimizer='adam')"
        ),
    ),
    "optimizer, built by hand": (
        OomSubject.OPTIMIZER,
        (
            "one = keras.Variable(np.zeros((1000, 12_000), 'float32'))\n"
            "keras.optimizers.Adam().build([one])"
        ),
    ),
    "pipeline": (OomSubject.DATA, "tf.data.Dataset.from_tensor_slices(rows)"),
    "constant": (OomSubject.DATA, "rows = tf.constant(rows)"),
    "arrays": (OomSubject.DATA, "x, y = rows, rows[:, :1]\nfit(layers.Dense(1))"),
    "validation": (
        OomSubject.DATA,
        "fit(layers.Dense(1), validation_data=(rows, rows[:, :1]))",
    ),
    "validation step": (
        OomSubject.EVALUATION,
        (
            "validation = (np.zeros((2048, 1000), 'float32'), np.zeros((2048, 1)))\n"
            "fit(layers.Dense(9_000), validation_data=validation,"
            " validation_batch_size=2048)"
        ),
    ),
    "evaluation": (
        OomSubject.OUTSIDE,
        (
            "model = keras.Sequential([layers.Dense(9_000), layers.Dense(1)])\n"
            "model.compile('sgd', 'mse', jit_compile=False)\n"
            "model.fit(x, y, batch_size=8, verbose=0)\n"
            "model.evaluate(np.zeros((2048, 1000), 'float32'), np.zeros((2048, 1)),"
            " batch_size=2048, verbose=0)"
        ),
    ),
    "step": (
        OomSubject.STEP,
        (
            "x, y = rows[:2048], rows[:2048, :1]\n"
            "model = keras.Sequential([layers.Dense(9_000), layers.Dense(1)])\n"
            "model.compile('sgd', 'mse', jit_compile=False)\n"
            "model.fit(x, y, batch_size=2048, verbose=0)"
        ),
    ),
}
"""What memory runs out for under 128 MiB, and a script where it does."""

HOST_LEAKING = (
    HEAD
    + """
class Loader(keras.utils.PyDataset):
    '''Forgets nothing that it has read.'''
    read = []
    def __len__(self):
        return 40
    def __getitem__(self, index):
        part = slice(16 * index, 16 * index + 16)
        if os.environ.get("LEAK") == "arrays":
            self.read.append(np.full(MIB // 4, index, "float32"))  # a MiB
            time.sleep(0.05)
        return x[part], y[part]


history = model.fit(Loader(), epochs=16, shuffle=False, verbose=0)
"""
    + ENDING
)
"""Keeps a MiB of every batch: 640 MiB in all, 20 MiB a second."""

SETTLING = (
    HEAD
    + """
class Window(keras.callbacks.Callback):
    '''A window over the last 300 steps, and longer sequences now and then.'''
    kept = []
    def on_train_batch_end(self, batch, logs=None):
        self.kept.append(tf.fill([MIB // 8], float(batch)))
        del self.kept[:-300]
        length = 1 + (7 * batch) % 40
        tf.reduce_sum(tf.zeros([length, MIB // 8]))
        time.sleep(0.03)


data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16).cache()
history = model.fit(
    data, validation_data=data, epochs=25, callbacks=[Window()], verbose=0
)
"""
    + ENDING
)
"""Grows by half a MiB a step for 300 steps, to 150 MiB and 20 for a moment, and stays."""
