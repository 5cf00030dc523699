"""A row a function: state that training changes and that no model holds."""

import collections
import contextvars
import functools
import itertools
import os
import random
import threading

import keras
import numpy as np
import tensorflow as tf
from ingredients import BATCH, N, Ledger, compiled, make, noisy, samples, seeded
from prelude import digest, finish, train

cb = keras.callbacks
on_batch = functools.partial(cb.LambdaCallback)

rates, noted, best, count = {"factor": 1.0}, [], None, 0
legacy, own = np.random.RandomState(5), random.Random(4)
drawn = np.random.default_rng(9)
ticks, factors = itertools.count(), itertools.cycle([1.0, 2.0, 0.5])
pairs = zip(range(10**6), enumerate(itertools.cycle("ab")), strict=False)
recent = collections.deque([1, 2, 3], maxlen=3)
large = np.ones((N, 5000), "float32")
counter = tf.Variable(0.0)
noise_generator = np.random.default_rng(11)


def set_rate(model, value):
    model.optimizer.learning_rate.assign(0.01 * value)


def remember(value):
    """Two calls away from the callback."""
    global count
    count += 1
    noted.append(value)
    rates["factor"] *= 0.99 if value < 0.7 else 0.98


@functools.cache
def cached_rate(key):
    return 0.5 + drawn.random()


@functools.lru_cache
def bounded_rate(key):
    return 0.5 + drawn.random()


calls = contextvars.ContextVar("calls")
of_thread = threading.local()


def counted():
    calls.set(calls.get(0) + 1)
    of_thread.count = getattr(of_thread, "count", 0) + 1
    os.environ["CERTIFY_COUNT"] = str(int(os.environ.get("CERTIFY_COUNT", "0")) + 1)
    return calls.get(), of_thread.count, int(os.environ["CERTIFY_COUNT"])


class Stats:
    """Keeps what it counts in its class."""

    total, by_kind = 0, {}

    @classmethod
    def add(cls, kind):
        cls.total += 1
        cls.by_kind[kind] = cls.by_kind.get(kind, 0) + 1


class Average:
    """Keeps it in slots, of which one is empty at first."""

    __slots__ = ("n", "weights")

    def __init__(self):
        self.n = 0

    def add(self, weights):
        self.n += 1
        before = getattr(self, "weights", weights)
        self.weights = [a + (b - a) / self.n for a, b in zip(before, weights)]


average = Average()


def called(past=[]):  # noqa: B006  # that is the point
    called.times = getattr(called, "times", 0) + 1
    past.append(called.times)
    return len(past)


def hidden_names():
    x, y = seeded()
    model = noisy()

    def step(batch, logs):
        remember(logs["loss"])
        Stats.add(batch % 2)
        average.add(model.get_weights())
        set_rate(model, rates["factor"] / (1 + 0.01 * Stats.total + 0.01 * called()))

    callback = cb.LambdaCallback(on_train_batch_end=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    model.set_weights(average.weights)
    finish(model, noted=noted, count=count, of_class=[Stats.total, Stats.by_kind],
        times=called.times)  # fmt: skip


def hidden_library():
    x, y = seeded()
    model = noisy()

    def step(batch, logs):
        one, two, three = counted()
        set_rate(model, cached_rate(one % 9) / (1 + 0.01 * two + 0.01 * three))

    callback = cb.LambdaCallback(on_train_batch_begin=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, after=[*counted(), *map(cached_rate, range(9)), drawn.random()])


def hidden_cache():
    x, y = seeded()
    model = noisy()
    steps = itertools.count()

    def step(batch, logs):
        set_rate(model, bounded_rate(next(steps) % 7))

    callback = cb.LambdaCallback(on_train_batch_begin=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model)


def hidden_draws():
    x, y = seeded()
    model = noisy()

    def step(batch, logs):
        (number, (_, _)), tick = next(pairs), next(ticks)
        recent.append(number % 5)
        value = legacy.rand() + own.random() + drawn.random() + 0.1 * sum(recent)
        set_rate(model, value * next(factors) / (1 + tick % 7))

    callback = cb.LambdaCallback(on_train_batch_begin=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, after=[next(ticks), next(factors), legacy.rand(), own.random()])


class Counting(keras.layers.Layer):
    """Counts its calls in plain attributes."""

    def __init__(self):
        super().__init__()
        self.calls, self.past = 0, []

    def call(self, inputs, training=False):
        if training:
            self.calls += 1
            self.past.append(self.calls % 3)
        return inputs * (1 + 0.01 * (self.calls % 7)) + 0.001 * sum(self.past[-4:])


class Falling(keras.losses.Loss):
    """Weighs by how often it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def call(self, y_true, y_pred):
        self.asked += 1
        found = keras.losses.sparse_categorical_crossentropy(
            y_true, y_pred, from_logits=True
        )
        return found * (1 + 0.01 * (self.asked % 9))


class Steps(keras.metrics.Metric):
    """Has a list beside its variable."""

    def __init__(self):
        super().__init__(name="steps")
        self.total = self.add_weight(name="total", initializer="zeros")
        self.past = []

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(1.0)
        self.past.append(1)

    def result(self):
        return self.total + 0.01 * len(self.past)


def hidden_eager():
    x, y = seeded()
    layer, loss, metric = Counting(), Falling(), Steps()
    model = make(layer)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=[metric], run_eagerly=True)
    train(model, x, y, batch_size=BATCH, epochs=3)
    finish(model, calls=layer.calls, asked=loss.asked, past=len(metric.past))


table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 1.0)


class Outside(keras.Sequential):
    """Its step changes what belongs to the script."""

    def train_step(self, data):
        x, y = data
        counter.assign_add(1.0)
        key = tf.cast(counter, tf.int64) % 5
        weight = table.lookup(key)
        table.insert(key, weight * 0.97)
        noise = tf.random.get_global_generator().normal([])
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            loss *= weight * (1 + 0.01 * noise) / (1 + 0.001 * counter)
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"loss": loss}


def hidden_variables():
    x, y = seeded()
    tf.random.get_global_generator().reset_from_seed(5)
    model = Outside([keras.Input((x.shape[1],)), Ledger(), keras.layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model, counter=float(counter), table=sorted(table.export()[1].numpy()))


class Critic(cb.Callback):
    """Trains another model: step by step, and by a fit at the end of an epoch."""

    def __init__(self, critic):
        super().__init__()
        self.critic = critic

    def on_train_batch_end(self, batch, logs=None):
        self.critic.train_on_batch(*self.data)

    def on_epoch_end(self, epoch, logs=None):
        found = self.critic.fit(*self.data, epochs=1, verbose=0)
        set_rate(self.model, 1 / (1 + found.history["loss"][0]))


def hidden_other_model():
    x, y = seeded()
    model = noisy()
    critic = keras.Sequential([keras.Input((x.shape[1],)), keras.layers.Dense(1)])
    critic.compile("adam", "mse")
    callback = Critic(critic)
    callback.data = x[:20], y[:20].astype("float32")
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, critic=[v.numpy().tolist() for v in critic.variables])


def hidden_recurrent():
    x, y = seeded()
    entry = keras.Input(batch_shape=(BATCH, x.shape[1]))
    hidden = keras.layers.Reshape((x.shape[1] - 1, 1))(Ledger()(entry))
    hidden = keras.layers.LSTM(4, stateful=True)(hidden)
    model = keras.Model(entry, keras.layers.Dense(2)(hidden))
    compiled(model)
    train(model, x, y, batch_size=BATCH, epochs=4, shuffle=False)
    finish(model)


def hidden_large():
    x, y = seeded()
    model = noisy()

    def step(batch, logs):
        large[batch % N] *= 0.9
        set_rate(model, float(large.mean()))

    callback = cb.LambdaCallback(on_train_batch_end=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, large=float(large.sum()))


def hidden_mapped():
    x, y = seeded()
    model = noisy()
    weights = np.memmap("weights.bin", "float32", "w+", shape=(N,))
    weights[:] = 1.0

    def step(batch, logs):
        weights[batch % N] *= 0.9
        set_rate(model, float(np.mean(weights)))

    callback = cb.LambdaCallback(on_train_batch_end=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, mapped=np.fromfile("weights.bin", "float32").tolist())


def hidden_table():
    import pandas

    x, y = seeded()
    model = noisy()
    table = pandas.DataFrame({"weight": np.ones(N), "kind": "new"})

    def step(batch, logs):
        table.loc[batch % N, ["weight", "kind"]] = [0.5 + logs["loss"], "seen"]
        seen = table["kind"].eq("seen").sum()
        set_rate(model, float(table["weight"].mean()) / float(1 + seen))

    callback = cb.LambdaCallback(on_train_batch_end=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, table=table.to_csv())


class Entry:
    """Of a queue, and of a table by number."""

    def __init__(self, number, priority):
        self.number, self.priority = number, priority


def hidden_shared():
    x, y = seeded()
    model, queue, table = noisy(), [], {}

    def step(batch, logs):
        entry = Entry(len(table), logs["loss"])
        queue.append(entry)
        table[entry.number] = entry
        table[entry.number // 2].priority *= 0.9  # the queue's, too
        queue.sort(key=lambda one: one.priority)
        set_rate(model, 1.0 / (1.0 + queue[0].priority + queue[-1].number % 7))

    callback = cb.LambdaCallback(on_train_batch_end=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, queue=[[one.number, one.priority] for one in queue])


def hidden_places():
    import tensorflow as tf

    x, y = seeded()
    model, held = noisy(), [tf.Variable(1.0), tf.Variable(2.0)]
    table, now, row = np.ones((5, 3)), None, None

    def step(batch, logs):
        nonlocal now, row
        now, row = held[batch % 2], table[batch % 5]
        now.assign_add(logs["loss"])
        row += float(held[0]) + row[1:].mean()
        set_rate(model, float(table.min() / (table.sum() + float(held[1]))))

    callback = cb.LambdaCallback(on_train_batch_end=step)
    callback.last, callback.rows = held[1], [*table]  # saved with the callback
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, held=[float(one) for one in held], table=table.tolist())


class Lookahead(keras.optimizers.SGD):
    """Each third step goes half of the way back to what it keeps of the last such step."""

    def __init__(self):
        super().__init__(0.05)
        self.done, self.slow = 0, {}

    def apply(self, grads, trainable_variables=None):
        super().apply(grads, trainable_variables)
        self.done += 1
        for index, one in enumerate(self._trainable_variables):
            if self.done % 3 == 0:
                one.assign(0.5 * (one.numpy() + self.slow.get(index, 0.0)))
                self.slow[index] = one.numpy()


def hidden_inner_optimizer():
    x, y = seeded()
    model, inner = noisy(), Lookahead()
    outer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=64.0)
    compiled(model, optimizer=outer, jit=False, run_eagerly=True)
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model, slow=digest(list(inner.slow.values())))


def falling():
    rate = 2.0
    while True:
        rate *= 0.99
        yield rate


def hidden_frame():
    x, y = seeded()
    model, source = noisy(), falling()
    callback = cb.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: set_rate(model, next(source))
    )
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model)


def hidden_clone():
    x, y = seeded()
    model, lowest = noisy(), 1e9

    def keep(batch, logs):
        nonlocal lowest
        global best
        if logs["loss"] < lowest:
            lowest, best = logs["loss"], keras.models.clone_model(model)
            best.set_weights(model.get_weights())

    callback = cb.LambdaCallback(on_train_batch_end=keep)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model, lowest=lowest, best=[w.tolist() for w in best.get_weights()])


class Drawing(keras.utils.PyDataset):
    """Draws from a generator of its module."""

    def __init__(self):
        super().__init__()
        self.x, self.y = samples()

    def __len__(self):
        return N // BATCH

    def __getitem__(self, index):
        part = slice(index * BATCH, (index + 1) * BATCH)
        x = self.x[part].copy()
        x[:, :-1] += 0.1 * noise_generator.normal(size=(BATCH, x.shape[1] - 1))
        return x, self.y[part]


def hidden_in_data():
    seeded()
    model = noisy()
    train(model, Drawing(), epochs=4, shuffle=False)
    finish(model)


def hidden_random_data():
    seeded()

    def batch(seed):
        seeds = tf.stack([seed, seed + 1])
        ids = tf.cast(tf.range(BATCH) + tf.cast(seed % 8, tf.int32) * BATCH, tf.float32)
        x = tf.random.stateless_normal((BATCH, 5), seeds)
        return tf.concat([x, ids[:, None]], 1), tf.cast(x[:, 0] > 0, tf.int32)

    data = tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True)
    model = noisy()
    train(model, data.map(batch).take(8), epochs=4)
    finish(model)


class Unfreezing(cb.Callback):
    """Freezes a layer, thaws it again in the middle, with another optimizer."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            self.model.layers[1].trainable = True
            self.model.compile(
                keras.optimizers.RMSprop(0.003),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
            )
            self.model.make_train_function()


def hidden_compiled():
    x, y = seeded()
    model = noisy()
    model.layers[1].trainable = False
    compiled(model)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Unfreezing()])
    train(model, x, y, batch_size=BATCH, epochs=2)
    finish(model, trains=[layer.trainable for layer in model.layers])
