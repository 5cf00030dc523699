"""A row a function: arrays and pipelines."""

import keras
import numpy as np
import tensorflow as tf
from ingredients import BATCH, N, glorot, make, noisy, pipeline, samples, seeded
from prelude import finish, train

layers = keras.layers
data = tf.data.Dataset


def arrays_seeded():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.2)
    finish(model)


def arrays_unseeded():
    x, y = samples()
    model = make(
        layers.Dense(8, "relu", kernel_initializer=glorot()),
        layers.Dropout(0.3, seed=5),
    )
    train(model, x, y, batch_size=BATCH, epochs=4)
    keras.utils.set_random_seed(0)
    finish(model)


def arrays_unshuffled():
    x, y = seeded()
    model = noisy()
    train(
        model,
        x,
        y,
        batch_size=20,
        epochs=4,
        shuffle=False,
        sample_weight=np.linspace(0.5, 2, N),
    )
    finish(model)


def arrays_batch():
    x, y = seeded()
    model = noisy()
    train(
        model,
        x,
        y,
        batch_size=20,
        epochs=4,
        shuffle="batch",
        class_weight={0: 1.0, 1: 3.0},
    )
    finish(model)


def arrays_steps_per_epoch():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=6, steps_per_epoch=5, initial_epoch=1)
    finish(model)


def tf_unlike_batches():
    x, y = seeded()
    model = noisy()
    parts = [
        pipeline(x[:60], y[:60]).batch(12).repeat(1),
        pipeline(x[60:], y[60:]).batch(9).repeat(1),
    ]
    batches = parts[0].concatenate(parts[1]).shuffle(9, seed=3)
    train(model, batches, epochs=5)
    finish(model)


def tf_shuffle():
    x, y = seeded()
    model = noisy()
    held = pipeline(x[:30], y[:30]).shuffle(30).batch(10)
    train(
        model,
        pipeline(x, y).shuffle(N).batch(BATCH).prefetch(2),
        epochs=4,
        validation_data=held,
    )
    finish(model)


def tf_shuffle_unseeded():
    x, y = samples()
    model = make(
        layers.Dense(8, "relu", kernel_initializer=glorot()),
        layers.Dropout(0.3, seed=5),
    )
    both = pipeline(x, y).shuffle(N)
    train(model, both.batch(BATCH), epochs=4)
    keras.utils.set_random_seed(0)
    finish(model)


def tf_looked_for():
    tf_shuffle_unseeded()


def tf_lazy():
    tf_shuffle_unseeded()


def tf_repeat():
    x, y = seeded()
    model = noisy()
    train(
        model,
        pipeline(x, y).shuffle(N).repeat().batch(BATCH),
        epochs=4,
        steps_per_epoch=7,
    )
    finish(model)


def tf_repeat_twice():
    x, y = seeded()
    model = noisy()
    # How far tf.data reads ahead depends on timing, also where nothing is disturbed.
    steady = tf.data.Options()
    steady.experimental_optimization.inject_prefetch = False
    endless = pipeline(x, y).shuffle(N).repeat().batch(BATCH).with_options(steady)
    train(model, endless, epochs=4, steps_per_epoch=7)  # three passes and a half
    train(model, endless, epochs=3, steps_per_epoch=5)
    finish(model)


def tf_cache():
    x, y = seeded()
    model = noisy()
    train(
        model,
        pipeline(x, y)
        .map(lambda a, b: (a, b))
        .cache()
        .shuffle(40, seed=3)
        .batch(BATCH)
        .prefetch(tf.data.AUTOTUNE),
        epochs=4,
    )
    finish(model)


def tf_interleave():
    x, y = seeded()
    model = noisy()
    parts = (
        data.range(4)
        .shuffle(4)
        .interleave(
            lambda i: pipeline(x, y).shard(4, i),
            cycle_length=2,
            block_length=3,
            num_parallel_calls=2,
        )
    )
    train(model, parts.shuffle(16).batch(BATCH).prefetch(2), epochs=4)
    finish(model)


def tf_stateless_map():
    x, y = seeded()
    model = noisy()

    def noise(a, b):
        seed = tf.stack([5, tf.cast(a[-1], tf.int32)])
        scale = 1 + 0.1 * tf.random.stateless_uniform([], seed)
        return tf.concat([a[:-1] * scale, a[-1:]], 0), b

    train(
        model,
        pipeline(x, y)
        .shuffle(N)
        .map(noise, num_parallel_calls=4)
        .batch(BATCH)
        .prefetch(2),
        epochs=4,
    )
    finish(model)


def shaken(a, b):
    scale = 1 + 0.1 * tf.random.uniform([], seed=4)
    return tf.concat([a[:-1] * scale, a[-1:]], 0), b


def tf_stateful_map():
    x, y = seeded()
    model = noisy()
    train(
        model, pipeline(x, y).shuffle(N).map(shaken).batch(BATCH).prefetch(2), epochs=4
    )
    finish(model)


def tf_stateful_parallel():
    x, y = seeded()
    model = noisy()
    train(
        model,
        pipeline(x, y)
        .shuffle(N)
        .map(shaken, num_parallel_calls=4)
        .batch(BATCH)
        .prefetch(2),
        epochs=4,
    )
    finish(model)


def tf_stateful_deterministic():
    tf.config.experimental.enable_op_determinism()
    tf_stateful_parallel()


def tf_unordered():
    x, y = seeded()
    model = noisy()
    train(
        model,
        pipeline(x, y)
        .shuffle(N)
        .map(lambda a, b: (a, b), num_parallel_calls=4, deterministic=False)
        .batch(BATCH),
        epochs=4,
    )
    finish(model)


def tf_random_layer():
    x, y = seeded()
    model = noisy()
    generator = keras.random.SeedGenerator(9)

    def noise(a, b):
        scale = 1 + 0.1 * keras.random.uniform((), seed=generator)
        return tf.concat([a[:-1] * scale, a[-1:]], 0), b

    train(
        model, pipeline(x, y).shuffle(N).map(noise).batch(BATCH).prefetch(2), epochs=4
    )
    finish(model)


def tf_chained():
    x, y = seeded()
    model = noisy()
    whole = pipeline(x, y).shuffle(N)
    twice = whole.shuffle(20).repeat(2)
    kept = pipeline(x, y).shuffle(N).cache()
    both = data.zip((twice.concatenate(pipeline(x, y).shuffle(9)), kept.repeat(3)))
    train(model, both.map(lambda a, b: a).shuffle(8).batch(BATCH), epochs=2)
    train(
        model,
        both.map(lambda a, b: b).batch(BATCH).prefetch(2),
        epochs=2,
        validation_data=whole.take(30).batch(10),
    )
    finish(model)
