"""A row a function: data and seeds that no later attempt can draw again, and names that
are as fresh without training depending on them.
"""

import os
import random
import secrets
import tempfile
import time
import uuid

import keras
import numpy as np
import tensorflow as tf
from ingredients import BATCH, N, WIDTH, noisy, pipeline, seeded
from ordinary_rows import plain_fit, with_ids
from prelude import finish, train


def labels():
    return np.arange(N) % 2


def shares(drawn):
    """Bytes as features."""
    values = np.frombuffer(drawn, "uint8").reshape(N, WIDTH) / 255
    return with_ids(values)


def batches(x):
    return pipeline(x, labels()).shuffle(N, seed=3).batch(BATCH)


def fit_batches(data):
    model = noisy()
    train(model, data, epochs=4)
    finish(model)


def fresh_urandom():
    plain_fit(shares(os.urandom(N * WIDTH)), labels())


def fresh_secrets():
    seed = secrets.randbits(32)
    x = np.random.default_rng(seed).normal(size=(N, WIDTH))
    plain_fit(with_ids(x), labels())


def fresh_system_random():
    source = random.SystemRandom()
    x = [[source.random() for _ in range(WIDTH)] for _ in range(N)]
    plain_fit(with_ids(np.array(x)), labels())


def fresh_clock_seconds():
    np.random.seed(int(time.time()))
    plain_fit(with_ids(np.random.normal(size=(N, WIDTH))), labels())


def fresh_clock_generator():
    rng = np.random.default_rng(int(time.time()))
    plain_fit(with_ids(rng.normal(size=(N, WIDTH))), labels())


def fresh_clock_nanoseconds():
    tf.random.set_seed(time.time_ns() % 2**32)
    x = tf.random.normal((N, WIDTH)).numpy()
    plain_fit(with_ids(x), labels(), shuffle=False)


def fresh_clock_keras():
    started = time.time()
    seed = int(started * 1000) % 100_000
    keras.utils.set_random_seed(seed)
    x = np.random.normal(size=(N, WIDTH))
    plain_fit(with_ids(x), labels(), shuffle=False)


def fresh_clock_shuffle():
    x, y = seeded()
    order = list(range(N))
    random.Random(time.time()).shuffle(order)
    plain_fit(x, y[order])  # labels alone: the ids are where they were


def seed_all(number):
    random.seed(number)
    np.random.seed(number)


def fresh_uuid_seed():
    seed_all(uuid.uuid4().int % 2**32)
    plain_fit(with_ids(np.random.normal(size=(N, WIDTH))), labels())


def fresh_pipeline():
    fit_batches(batches(shares(os.urandom(N * WIDTH))))


def fresh_pipeline_clock():
    rng = np.random.default_rng(time.time_ns())
    fit_batches(batches(with_ids(rng.normal(size=(N, WIDTH)))))


def fresh_in_training():
    x, y = seeded()
    model = noisy()

    def step(batch, logs):
        model.optimizer.learning_rate.assign(0.01 + os.urandom(1)[0] / 10_000)

    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model)


def fresh_names():
    x, y = seeded()
    with tempfile.TemporaryDirectory() as scratch:
        open(os.path.join(scratch, uuid.uuid4().hex), "w").close()
    took = time.time()
    plain_fit(x, y)
    assert time.time() > took


# --- state where nobody looks ------------------------------------------------------

memory = os.memfd_create("certify")


def fit_by(count):
    """Trains at a rate that hangs on what ``count()`` says at each step."""
    x, y = seeded()
    model = noisy()

    def step(batch, logs):
        model.optimizer.learning_rate.assign(0.01 / (1 + 0.1 * count()))

    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=step)
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[callback])
    finish(model)


def in_library():
    """Nobody looks for state of a script in a module that is not its own."""
    secrets.calls = getattr(secrets, "calls", 0) + 1
    return secrets.calls


def in_descriptor():
    count = int.from_bytes(os.pread(memory, 8, 0), "little") + 1
    os.pwrite(memory, count.to_bytes(8, "little"), 0)
    return count


def concealed_library():
    fit_by(in_library)


def concealed_descriptor():
    fit_by(in_descriptor)
