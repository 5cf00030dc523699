"""A row a function: models, optimizers, and how a step is compiled."""

import keras
import tensorflow as tf
from ingredients import BATCH, N, WIDTH, Ledger, make, noisy, pipeline, seeded
from prelude import digest, finish, train

layers = keras.layers


class OwnStep(keras.Model):
    """A step of its own, with a second optimizer and variables beside the layers."""

    def __init__(self):
        super().__init__()
        self.ledger, self.dense = Ledger(), layers.Dense(2)
        self.drop = layers.Dropout(0.2)
        self.mean = keras.metrics.Mean("own")
        self.second = keras.optimizers.Adam(0.01)
        self.calls = keras.Variable(0.0, trainable=False)
        self.raw = tf.Variable(1.0)

    def call(self, inputs, training=False):
        hidden = self.ledger(inputs, training=training)
        return self.drop(self.dense(hidden), training=training)

    def train_step(self, batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.second.apply_gradients(zip(gradients, self.trainable_variables))
        self.calls.assign_add(1.0)
        self.raw.assign(self.raw * 0.9)
        self.mean.update_state(loss)
        return {"loss": loss, "own": self.mean.result()}


def own_train_step():
    x, y = seeded()
    model = OwnStep()
    model.compile(
        "rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    model.ledger.build(None)  # read before the first step; nothing else is built
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(
        model,
        own=[float(model.calls), float(model.raw), digest(model.second.variables)],
    )


class Vae(keras.Model):
    """No ``call``; two optimizers, whose variables the first step makes."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.encoder = keras.Sequential([layers.Dense(8, "relu"), layers.Dense(4)])
        self.decoder = keras.Sequential([layers.Dropout(0.2), layers.Dense(WIDTH)])
        self.noise = keras.random.SeedGenerator(5)

    def compile(self, first, second, **options):
        super().compile(**options)
        self.first, self.second = first, second
        self.total = keras.metrics.Mean(name="loss")

    def loss_of(self, x):
        values = self.ledger(x, training=True)
        mean, spread = tf.split(self.encoder(values), 2, axis=1)
        drawn = keras.random.normal(tf.shape(mean), seed=self.noise)
        again = self.decoder(mean + tf.exp(0.5 * spread) * drawn, training=True)
        return tf.reduce_mean((values - again) ** 2)

    def train_step(self, x):
        with tf.GradientTape(persistent=True) as tape:
            loss = self.loss_of(x)
        for part, optimizer in (
            (self.encoder, self.first),
            (self.decoder, self.second),
        ):
            weights = part.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.total.update_state(loss)
        return {"loss": self.total.result()}


def no_call():
    x, _ = seeded()
    model = Vae()
    adam, sgd = keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(adam, sgd, steps_per_execution=2, jit_compile=False)
    model.ledger.build(None)
    rows = tf.data.Dataset.from_tensor_slices(x).shuffle(N).batch(BATCH)
    train(model, rows, epochs=4)
    finish(model, own=digest([*adam.variables, *sgd.variables, *model.total.variables]))


class Turns(Vae):
    """Eager; the second optimizer has its turn in each third step, Keras' own none."""

    def __init__(self):
        super().__init__()
        self.turn = 0

    def train_step(self, x):
        self.turn += 1
        with tf.GradientTape(persistent=True) as tape:
            loss = self.loss_of(x)
        weights = self.encoder.trainable_weights
        self.first.apply_gradients(zip(tape.gradient(loss, weights), weights))
        if self.turn % 3 == 0 and loss.numpy() > 0:
            weights = self.decoder.trainable_weights
            self.second.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.total.update_state(loss)
        return {"loss": self.total.result()}


def optimizers_in_turns():
    x, _ = seeded()
    model = Turns()
    adam, sgd = keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(adam, sgd, run_eagerly=True)
    model.ledger.build(None)
    rows = tf.data.Dataset.from_tensor_slices(x).shuffle(N).batch(BATCH)
    train(model, rows, epochs=4)
    finish(model, own=digest([*adam.variables, *sgd.variables, *model.total.variables]))


def ema():
    x, y = seeded()
    model = noisy(
        optimizer=keras.optimizers.AdamW(
            0.01, use_ema=True, ema_overwrite_frequency=7, clipnorm=1.0
        )
    )
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


def mixed_precision():
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.25)
    finish(model)


def jit():
    x, y = seeded()
    model = noisy(jit=True)
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.25)
    finish(model)


def jit_mixed_ema():
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    x, y = seeded()
    model = noisy(jit=True, optimizer=keras.optimizers.SGD(0.05, 0.9, use_ema=True))
    train(model, pipeline(x, y).shuffle(N).batch(BATCH), epochs=4)
    finish(model)


def steps_per_execution():
    x, y = seeded()
    model = noisy(steps_per_execution=3)
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.25)
    finish(model)


def steps_per_execution_jit():
    x, y = seeded()
    model = noisy(steps_per_execution=4, jit=True)
    train(model, pipeline(x, y).shuffle(N).batch(BATCH), epochs=4)
    finish(model)


def schedule():
    x, y = seeded()
    rate = keras.optimizers.schedules.CosineDecay(0.05, 30)
    model = noisy(optimizer=keras.optimizers.RMSprop(rate))
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


class Shaky(layers.Layer):
    """Draws in the traced step, with TensorFlow's stateful operations."""

    def call(self, inputs, training=False):
        if not training:
            return inputs
        return inputs + 0.1 * tf.random.normal(tf.shape(inputs), dtype=inputs.dtype)


def stateful_random_step():
    x, y = seeded()
    model = make(layers.Dense(8, "relu"), Shaky())
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


def several_inputs():
    x, y = seeded()
    entry, side = keras.Input((WIDTH + 1,), name="a"), keras.Input((3,), name="b")
    hidden = layers.Concatenate()([Ledger()(entry), side])
    hidden = layers.Dropout(0.2)(
        layers.Dense(8, "relu", kernel_regularizer="l2")(hidden)
    )
    outputs = {
        "c": layers.Dense(2, name="c")(hidden),
        "d": layers.Dense(1, name="d")(hidden),
    }
    model = keras.Model({"a": entry, "b": side}, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", {"c": loss, "d": "mse"}, metrics={"c": "accuracy"})
    train(
        model,
        {"a": x, "b": x[:, :3]},
        {"c": y, "d": x[:, :1]},
        batch_size=20,
        epochs=4,
        validation_split=0.25,
    )
    finish(model)
