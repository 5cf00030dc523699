"""A row a function: how a script calls ``fit``, and what it does between."""

import keras
from ingredients import BATCH, N, WIDTH, Ledger, compiled, noisy, pipeline, seeded
from prelude import Writer, digest, finish, number_of, place, train

layers, cb = keras.layers, keras.callbacks


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


def validation_steps():
    x, y = seeded()
    model = noisy()
    held = pipeline(x, y).shuffle(N).repeat().batch(10)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        validation_data=held,
        validation_steps=4,
    )
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=3,
        validation_data=(x[:50], y[:50]),
        validation_steps=3,
        validation_batch_size=7,
    )
    finish(model)


def validation():
    x, y = seeded()
    model = noisy()
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=5,
        validation_data=(x[:50], y[:50]),
        validation_freq=2,
        validation_steps=3,
        validation_batch_size=7,
    )
    held = pipeline(x, y).shuffle(N).repeat().batch(10)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=3,
        validation_data=held,
        validation_steps=4,
    )
    finish(model)
