"""A row a function: callbacks, models, and ways to train."""

import collections
import pathlib

import h5py
import keras
import numpy as np
import tensorflow as tf
from prelude import (
    BATCH,
    N,
    WIDTH,
    Ledger,
    Writer,
    append,
    compiled,
    digest,
    finish,
    fits,
    glorot,
    make,
    models,
    number_of,
    place,
    samples,
    train,
    watchers,
)
from data_rows import noisy, pipeline, seeded

layers, cb = keras.layers, keras.callbacks


def early_stopping():
    x, y = seeded()
    model = noisy(optimizer=keras.optimizers.Adam(0.05))
    stop = cb.EarlyStopping(
        "val_loss", patience=2, min_delta=0.02, restore_best_weights=True
    )
    plateau = cb.ReduceLROnPlateau("loss", patience=1, min_delta=0.1)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=9,
        validation_split=0.3,
        callbacks=[stop, plateau],
    )
    finish(model, callbacks=[stop, plateau], stopped=model.stop_training)


def stored(path):
    """Every data set of an HDF5 file."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: digest([item[()]])})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    return found


def files():
    x, y = seeded()
    model = noisy()
    best = cb.ModelCheckpoint(
        "best.weights.h5",
        monitor="val_loss",
        save_best_only=True,
        save_weights_only=True,
    )
    each = cb.ModelCheckpoint(
        "each-{epoch}.weights.h5", save_weights_only=True, save_freq=5
    )
    rate = cb.LearningRateScheduler(lambda epoch, now: now * 0.8)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        validation_split=0.25,
        callbacks=[best, each, rate, cb.CSVLogger("log.csv")],
    )
    finish(
        model,
        callbacks=[best, each, rate],
        csv=pathlib.Path("log.csv").read_text(),
        best=stored("best.weights.h5"),
        each=[stored(p) for p in sorted(pathlib.Path().glob("each-*"))],
    )


def scalars(directory):
    """Tag and step → value as written last."""
    found = {}
    files = sorted(
        pathlib.Path(directory).rglob("*tfevents*"),
        key=lambda path: (path.parent, path.stat().st_mtime_ns),
    )
    for path in files:
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                number = tf.make_ndarray(value.tensor)
                if number.dtype.kind == "f" and "per_second" not in value.tag:
                    key = f"{path.parent.name}/{value.tag}/{event.step}"
                    found[key] = float(number) if number.ndim == 0 else digest([number])
    return found


def tensorboard():
    x, y = seeded()
    model = noisy()
    board = cb.TensorBoard("board", update_freq=3, histogram_freq=0, write_graph=False)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        validation_split=0.25,
        callbacks=[board],
    )
    finish(model, scalars=scalars("board"))


def backup_and_restore():
    x, y = seeded()
    model = noisy()
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=5,
        callbacks=[cb.BackupAndRestore("backup", save_freq=3)],
    )
    finish(model, left=pathlib.Path("backup").exists())


class Interrupting(cb.Callback):
    """Raises after some steps."""

    def __init__(self, steps):
        super().__init__()
        self.left = steps

    def on_train_batch_begin(self, batch, logs=None):
        if self.left == 0:
            raise RuntimeError("interrupted")
        self.left -= 1


def caught_and_again():
    x, y = seeded()
    model = noisy()
    try:
        train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Interrupting(11)])
    except RuntimeError:
        train(model, x, y, batch_size=BATCH, epochs=3, validation_split=0.25)
    train(model, x, y, batch_size=BATCH, epochs=2)
    finish(model)


class Own(cb.Callback):
    """State of many kinds, used and changed."""

    def __init__(self):
        super().__init__()
        self.recent = collections.deque(maxlen=3)
        self.by_epoch = collections.defaultdict(list)
        self.counts = collections.Counter()
        self.rng = np.random.default_rng(1)
        self.best, self.average, self.names = np.inf, None, {"a"}
        self.slow = None

    def on_train_batch_end(self, batch, logs=None):
        self.recent.append(float(self.rng.normal()))
        self.counts[batch % 3] += 1
        self.best = min(self.best, logs["loss"])
        kernel = self.model.trainable_variables[0].numpy()
        self.average = kernel if self.average is None else (self.average + kernel) / 2
        self.slow = tf.Variable(kernel) if self.slow is None else self.slow
        self.slow.assign(0.9 * self.slow + 0.1 * kernel)

    def on_epoch_end(self, epoch, logs=None):
        self.by_epoch[epoch % 2].append(sum(self.recent))
        self.names.add(f"epoch {epoch}")
        if epoch == 2:
            self.model.optimizer.learning_rate = 0.003


def own_callback():
    x, y = seeded()
    model = noisy()
    own = Own()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[own])
    finish(
        model,
        callbacks=[own],
        kinds=[
            repr(own.recent),
            repr(own.by_epoch),
            repr(own.counts),
            own.rng.random(),
            digest([own.slow]),
        ],
    )


noted = []


class Tracker:
    """An object of the script's own that functions change."""

    def __init__(self, model):
        self.model, self.best, self.history = model, None, collections.deque(maxlen=9)

    def add(self, logs):
        self.best = logs["loss"] if self.best is None else min(self.best, logs["loss"])
        self.history.append(round(self.best, 3))


def lambda_callback():
    x, y = seeded()
    model = noisy()
    seen, total, tracker = collections.Counter(), 0.0, Tracker(model)

    def add(batch, logs):
        nonlocal total
        total += logs["loss"]
        seen[batch] += 1
        tracker.add(logs)

    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        callbacks=[
            cb.LambdaCallback(
                on_train_batch_end=add,
                on_epoch_end=lambda epoch, logs: noted.append(logs["loss"]),
            )
        ],
    )
    finish(
        model,
        noted=noted,
        counts=repr(seen),
        total=total,
        tracked=[tracker.best, list(tracker.history)],
    )


def several_fits():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=3)
    one = model.evaluate(x, y, verbose=0, return_dict=True)
    two = digest([model.predict(x[:20], verbose=0)])
    model.optimizer.learning_rate = 0.002
    train(model, pipeline(x, y).shuffle(N).batch(BATCH), epochs=2)
    three = model.evaluate(x, y, verbose=0, return_dict=True)
    train(model, x[:48], y[:48], batch_size=BATCH, epochs=2, shuffle=False)
    finish(model, between=[one, two, three])


def train_on_batch():
    x, y = seeded()
    model = noisy()
    writer = Writer(number_of(model))
    losses = []

    def loop(times, fit):
        for batch in range(times):
            writer.before(model)
            place(f"step:{fit}:0:{batch}")
            part = slice(BATCH * (batch % 8), BATCH * (batch % 8 + 1))
            losses.append(float(model.train_on_batch(x[part], y[part])[0]))
            writer.after(model, fit=fit, epoch=0, batch=batch)

    loop(8, 100)
    train(model, x, y, batch_size=BATCH, epochs=3)
    loop(16, 101)
    finish(model, losses=losses)


def clear_session():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=2)
    keras.backend.clear_session()
    second = noisy()
    train(second, x, y, batch_size=BATCH, epochs=3)
    finish(second, first=digest(model.variables))


def seed_again():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=2)
    keras.utils.set_random_seed(11)
    second = noisy()
    train(second, x, y, batch_size=BATCH, epochs=2)
    keras.utils.set_random_seed(11)
    train(model, x, y, batch_size=BATCH, epochs=2)
    finish(model, second=digest(second.variables))


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

    def train_step(self, x):
        with tf.GradientTape(persistent=True) as tape:
            values = self.ledger(x, training=True)
            mean, spread = tf.split(self.encoder(values), 2, axis=1)
            drawn = keras.random.normal(tf.shape(mean), seed=self.noise)
            again = self.decoder(mean + tf.exp(0.5 * spread) * drawn, training=True)
            loss = tf.reduce_mean((values - again) ** 2)
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


class OwnFit(keras.Model):
    """A ``fit`` of its own: a warm-up, then the rest."""

    def fit(self, *args, epochs=1, **options):
        warm = super().fit(*args, epochs=1, **options)
        rest = super().fit(*args, epochs=epochs, initial_epoch=1, **options)
        rest.history = {k: warm.history[k] + v for k, v in rest.history.items()}
        return rest


def own_fit():
    x, y = seeded()
    entry = keras.Input((WIDTH + 1,))
    out = layers.Dense(2)(layers.Dropout(0.2)(layers.Dense(8)(Ledger()(entry))))
    model = OwnFit(entry, out)
    compiled(model)
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


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


def own_loop():
    import random

    from trainers.session import session

    x, y = seeded()
    model = make(
        layers.Dense(8, "relu"),
        layers.BatchNormalization(),
        layers.Dropout(0.3),
        layers.Dense(4),
    )
    optimizer = keras.optimizers.Adam(0.01)
    mean = keras.metrics.Mean()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses, rng, writer = [], np.random.default_rng(3), Writer(number_of(model))

    @tf.function
    def train_step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        mean.update_state(loss)
        return loss

    data = pipeline(x, y).shuffle(N).batch(BATCH).prefetch(2)
    with session(
        model=model, optimizer=optimizer, mean=mean, losses=losses, rng=rng
    ) as run:
        for fit, epochs in enumerate((4, 2)):
            if fit:
                place("between:1")
            for epoch in run.epochs(epochs):
                place(f"epoch_begin:{fit}:{epoch}")
                for batch, (a, b) in enumerate(run.batches(data)):
                    writer.before(model)
                    place(f"step:{fit}:{epoch}:{run.step}")
                    loss = float(train_step(a, b))
                    losses.append([loss, rng.random(), random.random()])
                    writer.after(model, fit=fit, epoch=epoch, batch=batch)
                    run.log(loss=loss)
                place(f"epoch_end:{fit}:{epoch}")
                run.kept["best"] = min(run.kept.get("best", 9.0), float(mean.result()))
            losses.append(["between", random.random()])
        best, steps = run.kept["best"], run.step
    finish(
        model,
        losses=losses,
        best=best,
        steps=steps,
        other=digest([*optimizer.variables, *mean.variables]),
    )


def own_loop_hidden_state():
    from trainers.session import session

    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    writer = Writer(number_of(model))

    @tf.function
    def noisy_step(a, b):
        a = tf.concat(
            [a[:, :-1] + 0.1 * tf.random.normal(tf.shape(a[:, :-1])), a[:, -1:]], 1
        )
        with tf.GradientTape() as tape:
            loss = loss_of(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    data = pipeline(x, y).shuffle(N).map(lambda a, b: (a, b)).batch(BATCH)
    with session(model=model, optimizer=optimizer) as run:
        for step, (a, b) in run.steps(data, epochs=3):
            writer.before(model)
            place(f"step:0:{run.epoch}:{step}")
            noisy_step(a, b)
            writer.after(model, fit=0, epoch=run.epoch, batch=step)
    finish(model)


def own_loop_steps():
    from trainers.session import session

    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    seen, count = {}, tf.Variable(0)
    batches = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, N, BATCH)]
    writer = Writer(number_of(model))
    with session(model=model, optimizer=optimizer, seen=seen, count=count) as run:
        for step, (a, b) in run.steps(batches, epochs=3):
            writer.before(model)
            place(f"step:0:{run.epoch}:{step}")
            with tf.GradientTape() as tape:
                loss = loss_of(b, model(a, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            seen[step] = float(loss)
            count.assign_add(2)
            writer.after(model, fit=0, epoch=run.epoch, batch=step)
    finish(
        model,
        counted=[sorted(seen.items()), int(count)],
        other=digest(optimizer.variables),
    )
