"""A row a function: data that come from Python."""

import random

import keras
import numpy as np
from ingredients import BATCH, N, WIDTH, noisy, samples, seeded
from prelude import finish, train

layers = keras.layers


class Numbers(keras.utils.PyDataset):
    """Batches by index."""

    def __init__(self, **options):
        super().__init__(**options)
        self.x, self.y = samples()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        part = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[part], self.y[part]


def py_dataset():
    seeded()
    model = noisy()
    train(model, Numbers(), epochs=4, validation_data=Numbers())
    finish(model)


def py_dataset_workers():
    seeded()
    model = noisy()
    train(model, Numbers(workers=3, max_queue_size=4), epochs=4)
    finish(model)


def py_dataset_unshuffled():
    seeded()
    model = noisy()
    train(model, Numbers(), epochs=3, shuffle=False)
    train(model, Numbers(workers=2), epochs=2, shuffle=False, steps_per_epoch=5)
    finish(model)


class Mixed(Numbers):
    """Keeps an order of its own, and mixes it before and after each epoch."""

    def __init__(self, **options):
        super().__init__(**options)
        self.order = np.arange(N)
        self.rng = np.random.default_rng(4)
        self.begun, self.recent = 0, []

    def on_epoch_begin(self):
        self.begun += 1
        self.rng.shuffle(self.order)

    def on_epoch_end(self):
        np.random.shuffle(self.order)
        self.recent.append(int(self.order[0]))

    def __getitem__(self, index):
        part = self.order[index * BATCH : (index + 1) * BATCH]
        return self.x[part], self.y[part]


def py_dataset_own_order():
    seeded()
    model = noisy()
    mixed = Mixed()
    train(model, mixed, epochs=3, shuffle=False)
    train(model, mixed, epochs=2, shuffle=False)
    kept = mixed.begun, mixed.recent, mixed.order.tolist(), mixed.rng.random()
    finish(model, kept=kept)


class Shaken(Numbers):
    """Draws from a generator of its own as it is asked, and counts."""

    def __init__(self, seed, **options):
        super().__init__(**options)
        self.rng, self.counts = np.random.default_rng(seed), np.zeros(8, int)

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        self.counts[index] += 1
        moved = x[:, :WIDTH] + self.rng.normal(0.0, 0.3, (len(x), WIDTH))
        return np.concatenate([moved * random.random(), x[:, WIDTH:]], 1), y


def py_dataset_own_random():
    seeded()
    model, data, unseen = noisy(), Shaken(5), Shaken(6)
    plateau = keras.callbacks.ReduceLROnPlateau(factor=0.9, patience=1)
    how = {"validation_data": unseen, "callbacks": [plateau], "shuffle": False}
    train(model, data, epochs=3, **how)
    train(model, data, epochs=2, **how)
    finish(model, kept=[one.rng.random() for one in (data, unseen)])


class Augmented(Numbers):
    """Draws from the global generators as it is asked."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        scales = np.random.uniform(0.5, 1.5, (len(x), WIDTH)) + random.random()
        return np.concatenate([x[:, :WIDTH] * scales, x[:, WIDTH:]], 1), y


def py_dataset_global_random():
    seeded()
    model = noisy()
    train(model, Augmented(), epochs=3, shuffle=False)
    kept = np.random.random(), random.random()
    train(model, Augmented(), epochs=2, shuffle=False)
    finish(model, kept=kept)


class Distorted(Numbers):
    """Draws from the framework's global generators as it is asked."""

    def __getitem__(self, index):
        import tensorflow as tf

        x, y = super().__getitem__(index)
        images = tf.image.random_brightness(x[:, None, :WIDTH, None], 0.5)
        noise = keras.random.normal((len(x), WIDTH), stddev=0.1)
        moved = np.array(images)[:, 0, :, 0] + np.array(noise)
        return np.concatenate([moved, x[:, WIDTH:]], 1), y


class DistortedLater(Distorted):
    """The same from the second epoch on."""

    def __init__(self):
        super().__init__()
        self.epochs = 0

    def __getitem__(self, index):
        if self.epochs:
            return super().__getitem__(index)
        return Numbers.__getitem__(self, index)

    def on_epoch_end(self):
        self.epochs += 1


def py_dataset_framework_random():
    import tensorflow as tf

    seeded()
    model = noisy()
    train(model, Distorted(), epochs=3, shuffle=False)
    kept = float(tf.random.uniform([])), float(keras.random.uniform([]))
    train(model, DistortedLater(), epochs=4, shuffle=False)
    finish(model, kept=kept)


def generator():
    x, y = seeded()
    model = noisy()

    def batches():
        rng = np.random.default_rng(1)
        while True:
            order = rng.permutation(N)
            for start in range(0, N, BATCH):
                part = order[start : start + BATCH]
                yield x[part], y[part]

    train(model, batches(), epochs=4, steps_per_epoch=8)
    finish(model)


class Rows:
    """Samples by number, as Grain reads them."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def loader():
    import grain

    rows = grain.MapDataset.source(Rows(*seeded())).seed(4).shuffle()
    model = noisy()
    train(model, rows.batch(BATCH), epochs=4)
    finish(model)
