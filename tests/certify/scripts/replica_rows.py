"""A row a function: several devices of one process, which here are parts of the CPU.

The name ends with how many there are: ``replicas_arrays_2``.
"""

import keras
import tensorflow as tf
from ingredients import BATCH, N, WIDTH, Ledger, compiled, pipeline, seeded
from prelude import digest, finish, train

layers = keras.layers


class PartedLedger(Ledger):
    """One of which each replica counts what it sees itself."""

    def build(self, _shape):
        kinds = {"aggregation": "sum", "synchronization": "on_read"}
        zeros = {"initializer": "zeros", "dtype": "int32", "trainable": False, **kinds}
        self.seen = keras.Variable(shape=(self.n,), name="seen", **zeros)
        self.steps = keras.Variable(shape=(), name="steps", **zeros)
        self.built = True


def divide(name):
    """Make the devices of the row ``name``, before any is used."""
    kind, _, count = name.rpartition("_")
    if not kind.startswith("replicas_"):
        return
    cpus = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * int(count)
    tf.config.set_logical_device_configuration(cpus[0], parts)


def devices():
    return [
        one.name.removeprefix("/device:") for one in tf.config.list_logical_devices()
    ]


def mirrored():
    return tf.distribute.MirroredStrategy(devices())


def noisy(optimizer=None, **options):
    """Dropout, noise, and moving statistics that are others on each replica."""
    model = keras.Sequential(
        [
            PartedLedger(),
            layers.Dense(8, "relu"),
            layers.BatchNormalization(),
            layers.GaussianNoise(0.1),
            layers.Dropout(0.3),
            layers.Dense(2),
        ]
    )
    model.layers[0].build(None)  # read before the first step
    compiled(model, optimizer=optimizer, **options)
    return model


def arrays():
    x, y = seeded()
    with mirrored().scope():
        model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.25)
    finish(model)


def shuffle():
    x, y = seeded()
    rate = keras.optimizers.schedules.CosineDecay(0.02, 30)
    with mirrored().scope():
        model = noisy(keras.optimizers.AdamW(rate))
    data = pipeline(x, y).shuffle(N).batch(BATCH).prefetch(2)
    unseen = pipeline(x[:40], y[:40]).shuffle(40).batch(8)
    train(model, data, epochs=4, validation_data=unseen)
    finish(model)


def repeat():
    """Short batches in the middle of the data, which parts are filled up across."""
    x, y = seeded()
    with mirrored().scope():
        model = noisy()
    data = pipeline(x[:90], y[:90]).shuffle(90).batch(BATCH).repeat()
    train(model, data, epochs=4, steps_per_epoch=9)
    finish(model)


class OwnStep(keras.Model):
    """A step of its own, with a second optimizer, a metric, and noise by a generator of
    each replica's own."""

    def __init__(self):
        super().__init__()
        self.ledger, self.dense = PartedLedger(), layers.Dense(2)
        self.drop = layers.Dropout(0.2)
        self.mean = keras.metrics.Mean("own")
        self.second = keras.optimizers.Adam(0.01)
        self.noise = tf.random.Generator.from_seed(4)
        self.norms = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
        )

    def call(self, inputs, training=False):
        hidden = self.ledger(inputs, training=training)
        return self.drop(self.dense(hidden), training=training)

    def train_step(self, batch):
        x, y = batch
        noise = self.noise.normal([WIDTH + 1], stddev=0.01) * tf.one_hot(0, WIDTH + 1)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x + noise, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.second.apply_gradients(zip(gradients, self.trainable_variables))
        self.norms.assign(0.9 * self.norms + tf.norm(gradients[0]))
        self.mean.update_state(loss)
        return {"loss": loss, "own": self.mean.result()}


def own_step():
    x, y = seeded()
    with mirrored().scope():
        model = OwnStep()
        model.compile(
            "rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )
        model.ledger.build(None)
        model.dense.build((None, WIDTH))
        model.second.build(model.dense.trainable_variables)  # a step cannot make them
    data = pipeline(x, y).shuffle(N).batch(BATCH)
    train(model, data, epochs=3)
    train(model, x, y, batch_size=BATCH, epochs=2)
    of_step = [digest([model.norms, model.noise.state]), float(model.norms.numpy())]
    finish(model, own=of_step, second=digest(model.second.variables))


def replicas_one_device_1():
    x, y = seeded()
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=2, validation_split=0.25)
    train(model, pipeline(x, y).shuffle(N).batch(BATCH), epochs=3)
    finish(model)


class OverTwo(keras.Model):
    """Its layers lie on two devices, by hand."""

    def __init__(self, places):
        super().__init__()
        self.places = places
        self.ledger = Ledger()
        with tf.device(places[0]):
            self.low = keras.Sequential([layers.Dense(8, "relu"), layers.Dropout(0.3)])
            self.low.build((None, WIDTH))
        with tf.device(places[1]):
            self.norm, self.high = layers.BatchNormalization(), layers.Dense(2)
            self.norm.build((None, 8))
            self.high.build((None, 8))

    def call(self, inputs, training=False):
        with tf.device(self.places[0]):
            hidden = self.low(self.ledger(inputs, training=training), training=training)
        with tf.device(self.places[1]):
            return self.high(self.norm(hidden, training=training))


def replicas_placed_by_hand_2():
    x, y = seeded()
    model = OverTwo(devices())
    compiled(model)
    model.ledger.build(None)
    assert "CPU:1" in model.high.kernel.value.device
    train(model, pipeline(x, y).shuffle(N).batch(BATCH), epochs=4)
    finish(model)


for made in (arrays, shuffle, repeat, own_step):
    for count in (2, 4):
        globals()[f"replicas_{made.__name__}_{count}"] = made
