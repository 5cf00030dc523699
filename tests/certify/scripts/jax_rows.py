"""A row a function: Keras on JAX, where a loop keeps the values of the variables."""

import keras
import numpy as np
from ingredients import (
    BATCH,
    N,
    WIDTH,
    Ledger,
    compiled,
    make,
    noisy,
    pipeline,
    samples,
    seeded,
)
from prelude import digest, finish, train

layers, cb = keras.layers, keras.callbacks


def jax_arrays():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.2)
    finish(model)


jax_memory = jax_arrays
jax_sliced = jax_arrays


def jax_sgd():
    import jax

    x, y = seeded()
    model = noisy(optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))
    train(model, jax.numpy.asarray(x), jax.numpy.asarray(y), batch_size=20, epochs=4)
    finish(model)


class OwnStep(keras.Model):
    """A step without state: takes it all, and returns it."""

    def __init__(self):
        super().__init__()
        self.ledger, self.dense = Ledger(), layers.Dense(2)
        self.drop = layers.Dropout(0.2)

    def call(self, inputs, training=False):
        hidden = self.ledger(inputs, training=training)
        return self.drop(self.dense(hidden), training=training)

    def train_step(self, state, data):
        import jax

        trainable, fixed, slots, metrics = state
        x, y = data[:2]

        def loss_of(weights, fixed):
            found, fixed, losses = self.stateless_call(
                weights, fixed, x, training=True, return_losses=True
            )
            return self.compute_loss(x, y, found) + sum(losses), (found, fixed)

        (loss, (found, fixed)), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            trainable, fixed
        )
        trainable, slots = self.optimizer.stateless_apply(slots, gradients, trainable)
        logs, kept = {}, []
        for metric in self.metrics:
            own = metrics[len(kept) : len(kept) + len(metric.variables)]
            if metric.name == "loss":
                own = metric.stateless_update_state(own, loss)
            else:
                own = metric.stateless_update_state(own, y, found)
            result = metric.stateless_result(own)
            logs.update(result if isinstance(result, dict) else {metric.name: result})
            kept += own
        return logs, (trainable, fixed, slots, kept)


def jax_train_step():
    x, y = seeded()
    model = OwnStep()
    compiled(model, optimizer=keras.optimizers.RMSprop(0.01))
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


def jax_steps_per_execution():
    x, y = seeded()
    model = noisy(steps_per_execution=3)
    train(model, x, y, batch_size=10, epochs=4)
    finish(model)


def jax_data():
    x, y = seeded()
    model = noisy(steps_per_execution=2)
    rows = pipeline(x, y).shuffle(N).filter(lambda a, b: a[0] > -1.5).batch(BATCH)
    train(model, rows, epochs=4)
    finish(model)


def jax_eager():
    x, y = seeded()
    model = noisy(run_eagerly=True, jit=False)
    train(model, x, y, batch_size=24, epochs=3)
    finish(model)


def jax_early_stopping():
    x, y = seeded()
    model = noisy(optimizer=keras.optimizers.Adam(0.05))
    stop = cb.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
    plateau = cb.ReduceLROnPlateau("loss", patience=1, min_delta=0.1)
    best = cb.ModelCheckpoint(
        "best.weights.h5", save_best_only=True, save_weights_only=True
    )
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=8,
        validation_split=0.3,
        callbacks=[stop, plateau, best],
    )
    finish(model, callbacks=[stop, plateau], stopped=model.stop_training)


class Keys(cb.Callback):
    """Draws with keys of its own, and keeps arrays."""

    def __init__(self):
        import jax

        super().__init__()
        self.key = jax.random.PRNGKey(3)
        self.typed = jax.random.key(4)
        self.mean = jax.numpy.zeros(())
        self.drawn = []

    def on_train_batch_end(self, batch, logs=None):
        import jax

        self.key, own = jax.random.split(self.key)
        self.typed, other = jax.random.split(self.typed)
        self.mean = 0.9 * self.mean + jax.random.uniform(own) * logs["loss"]
        self.drawn.append(float(jax.random.uniform(other)))


def jax_keys():
    x, y = seeded()
    model = noisy()
    keys = Keys()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[keys])
    finish(model, drawn=keys.drawn, mean=float(keys.mean), key=digest([keys.key]))


class Rates(cb.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        rate = self.model.optimizer.learning_rate
        rate.assign(0.01 / (1 + int(self.model.optimizer.iterations) % 7))


def jax_each_batch():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Rates()])
    finish(model)


class Tokens(layers.Layer):
    """Whole numbers for an embedding."""

    def call(self, inputs):
        return keras.ops.cast(keras.ops.abs(inputs) * 7, "int32") % 20


def jax_attention():
    keras.config.set_dtype_policy("mixed_bfloat16")
    x, y = seeded()
    entry = keras.Input((WIDTH + 1,))
    hidden = layers.Embedding(20, 8)(Tokens()(Ledger()(entry)))
    hidden = layers.MultiHeadAttention(2, 4, dropout=0.2)(hidden, hidden)
    hidden = layers.LSTM(6, recurrent_dropout=0.2)(layers.LayerNormalization()(hidden))
    model = keras.Model(entry, layers.Dense(2, dtype="float32")(hidden))
    compiled(model, optimizer=keras.optimizers.AdamW(0.01))
    train(model, x, y, batch_size=BATCH, epochs=3)
    finish(model)


def jax_unseeded():
    x, y = samples()
    x[:, :WIDTH] += 0.1 * np.asarray(keras.random.normal((N, WIDTH)))
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4)
    train(model, pipeline(x, y).shuffle(N).batch(BATCH), epochs=2)
    finish(model, drawn=float(keras.random.uniform(())))


class Looks(cb.Callback):
    """What it finds depends on where the values are."""

    def __init__(self, model):
        super().__init__()
        self.kernel, self.found = model.trainable_variables[0], []

    def on_train_batch_begin(self, batch, logs=None):
        # Past the model, which would give it a value.
        self.found.append(self.kernel._value is not None)

    def on_train_batch_end(self, batch, logs=None):
        if batch % 3 == 0:
            self.found.append(len(self.model.weights))


def jax_callbacks_look():
    x, y = seeded()
    model = noisy()
    looks = Looks(model)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[looks])
    finish(model, found=looks.found)


class Scaled(layers.Layer):
    """Uses a plain number."""

    scale = 1.0

    def call(self, inputs):
        return inputs * self.scale


class Grows(cb.Callback):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.layer.scale += 0.5


def jax_constant():
    x, y = seeded()
    scaled = Scaled()
    model = make(layers.Dense(8, "relu"), scaled)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Grows(scaled)])
    finish(model)


def jax_folds():
    x, y = seeded()
    for fold in range(4):
        held = np.arange(N) % 4 == fold
        model = noisy()
        train(model, x[~held], y[~held], batch_size=BATCH, epochs=2)
        model.optimizer.learning_rate = 0.002
        data = (x[held], y[held])
        train(model, x[~held], y[~held], batch_size=24, epochs=1, validation_data=data)
    finish(model)
