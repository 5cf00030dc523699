"""A row a function: scripts as most people write them. None of them sets a seed.

What they draw comes from the run; only what the system draws, the clock and threads may
differ from attempt to attempt.
"""

import os
import random

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from ingredients import BATCH, N, WIDTH, Ledger, compiled
from prelude import finish, train
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import compute_class_weight, resample

layers, cb = keras.layers, keras.callbacks


def with_ids(features):
    """The last column is what the Ledger counts."""
    ids = np.arange(len(features), dtype="float32")[:, None]
    return np.concatenate([np.asarray(features, "float32"), ids], 1)


def noise():
    """Features and classes."""
    x = np.random.randn(N, WIDTH)
    return with_ids(x), (x.sum(1) + np.random.normal(0, 0.3, N) > 0).astype("int32")


def net(*middle, **options):
    """Default initializers everywhere."""
    usual = (layers.Dense(8, activation="relu"), layers.Dropout(0.3))
    if "HEAVY" in os.environ:  # a sample takes megabytes
        large = (layers.RepeatVector(60_000), layers.ReLU())
        middle = (*(middle or usual), *large, layers.GlobalAveragePooling1D())
    model = keras.Sequential(
        [keras.Input((WIDTH + 1,)), Ledger(), *(middle or usual), layers.Dense(2)]
    )
    compiled(model, **options)
    return model


def plain_fit(x, y, *middle, epochs=4, **options):
    model = net(*middle)
    train(model, x, y, batch_size=BATCH, epochs=epochs, **options)
    finish(model)


# --- splits ----------------------------------------------------------------------


def ordinary_split():
    x, y = noise()
    x, held, y, held_y = train_test_split(x, y, test_size=0.25)
    plain_fit(x, y, validation_data=(held, held_y))


def ordinary_permutation():
    x, y = noise()
    order = np.random.permutation(N)
    plain_fit(x[order], y[order], validation_split=0.25)


def ordinary_folds():
    x, y = noise()
    scores, model = [], None
    for part, held in StratifiedKFold(n_splits=3, shuffle=True).split(x, y):
        model = net()
        train(model, x[part], y[part], batch_size=BATCH, epochs=2)
        scores.append(model.evaluate(x[held], y[held], batch_size=BATCH, verbose=0))
    finish(model, scores=scores)


def ordinary_files():
    names = [f"part-{n}.npy" for n in range(8)]
    for number, name in enumerate(names):
        if not os.path.exists(name):
            np.save(name, np.full((BATCH, WIDTH), number, "float32"))
    random.shuffle(names)
    x = with_ids(np.concatenate([np.load(name) for name in names]) + np.random.rand(1))
    plain_fit(x, np.array([int(n[5]) % 2 for n in names]).repeat(BATCH))


def ordinary_pandas():
    import pandas

    x, y = noise()
    table = pandas.DataFrame(x).assign(y=y).sample(frac=1)
    held = table.sample(frac=0.25)
    rest = table.drop(held.index)
    plain_fit(rest.drop(columns="y").to_numpy("float32"), rest["y"].to_numpy())


# --- generators ------------------------------------------------------------------


def ordinary_default_rng():
    rng = np.random.default_rng()
    x = with_ids(rng.normal(size=(N, WIDTH)))
    chosen = rng.choice(N, size=72, replace=False)
    plain_fit(x[chosen], rng.integers(0, 2, 72))


def ordinary_kinds_of_generators():
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence().spawn(3)]
    columns = [stream.normal(size=N) for stream in streams]
    columns += [np.random.RandomState().rand(N), scipy.stats.norm.rvs(size=N)]
    y = [random.Random().randrange(2) for _ in range(N)]
    plain_fit(with_ids(np.stack(columns, 1)), np.array(y))


def ordinary_eager_tensors():
    x = tf.random.normal([N, WIDTH]) + tf.random.get_global_generator().uniform([1])
    y = tf.cast(tf.random.uniform([N]) > 0.5, tf.int32)
    order = tf.random.shuffle(tf.range(N))
    plain_fit(with_ids(tf.gather(x, order)), y.numpy())


def ordinary_seed_midway():
    x, y = noise()
    np.random.seed(3)
    x[:, :WIDTH] += np.random.randn(N, WIDTH)
    model = net()
    tf.random.set_seed(5)
    train(model, x, y, batch_size=BATCH, epochs=3)
    random.seed(8)
    train(model, x, y, batch_size=BATCH, epochs=2)
    finish(model)


def ordinary_set_of_words():
    words = {f"word{n}" for n in range(N)}
    places = {word: place for place, word in enumerate(words)}
    x = with_ids([[places[f"word{n}"] / N] * WIDTH for n in range(N)])
    plain_fit(x, np.arange(N) % 2)


# --- preparing -------------------------------------------------------------------


def ordinary_sklearn():
    x, y = noise()
    parts = StandardScaler().fit_transform(x[:, :WIDTH])
    near = KMeans(3, n_init=2).fit_transform(parts)
    flat = PCA(2, svd_solver="randomized").fit_transform(parts)
    plain_fit(with_ids(np.concatenate([near, flat], 1)), y)


def ordinary_class_weights():
    x, y = noise()
    ids = resample(np.arange(N), n_samples=72, replace=True)
    x, y = x[ids], y[ids]
    weights = compute_class_weight("balanced", classes=np.array([0, 1]), y=y)
    plain_fit(x, y, class_weight=dict(enumerate(weights)))


def ordinary_mixup():
    x, y = noise()
    share, other = np.random.beta(0.2, 0.2, (N, 1)), np.random.permutation(N)
    mixed = share * x[:, :WIDTH] + (1 - share) * x[other, :WIDTH]
    y = np.where(np.random.rand(N) < 0.1, 1 - y, y)
    plain_fit(with_ids(mixed), y)


def ordinary_search():
    x, y = noise()
    found = []
    for _ in range(3):
        units, rate = random.choice([4, 8, 16]), 10 ** np.random.uniform(-3, -1)
        model = net(layers.Dense(units, "relu"), optimizer=keras.optimizers.Adam(rate))
        history = train(model, x, y, batch_size=BATCH, epochs=2)
        found.append([units, rate, history.history["loss"][-1]])
    finish(model, found=found)


# --- models ----------------------------------------------------------------------


def ordinary_augment_layers():
    x, y = noise()
    plain_fit(
        x,
        y,
        layers.Reshape((WIDTH, 1, 1)),
        layers.RandomTranslation(0.3, 0.0),
        layers.RandomContrast(0.3),
        layers.GaussianNoise(0.1),
        layers.Conv2D(4, (3, 1), activation="relu"),
        layers.SpatialDropout2D(0.2),
        layers.Flatten(),
    )


class Noisy(layers.Layer):
    """Draws by a generator of its own; its weights begin with what TensorFlow draws."""

    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator()

    def build(self, shape):
        start = tf.random.truncated_normal([shape[-1]]).numpy()
        constant = keras.initializers.Constant(start)
        self.scale = self.add_weight(shape=(shape[-1],), initializer=constant)

    def call(self, x, training=False):
        if training:
            x = x + 0.1 * keras.random.normal(keras.ops.shape(x), seed=self.generator)
        return x * self.scale


def ordinary_initializers():
    x, y = noise()
    plain_fit(
        x,
        y,
        Noisy(),
        layers.Dense(8, kernel_initializer="he_normal"),
        layers.Dense(8, kernel_initializer=keras.initializers.Orthogonal()),
        layers.AlphaDropout(0.2),
    )


def ordinary_early_stopping():
    x, y = noise()
    x, held, y, held_y = train_test_split(x, y, test_size=0.25)
    stop = cb.EarlyStopping(patience=2, restore_best_weights=True)
    callbacks = [stop, cb.ReduceLROnPlateau(patience=1, monitor="loss")]
    model = net(layers.Dense(8, "relu"), layers.BatchNormalization())
    held = (held, held_y)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=5,
        validation_data=held,
        callbacks=callbacks,
    )
    finish(model, callbacks=callbacks)


class Drawing(cb.Callback):
    """Another learning rate each epoch, and a record of what was drawn."""

    def __init__(self):
        super().__init__()
        self.drawn = []

    def on_epoch_begin(self, epoch, logs=None):
        rng = np.random.default_rng()
        self.model.optimizer.learning_rate = 0.02 * rng.random()
        draws = np.random.rand(), random.Random().random(), tf.random.normal([])
        self.drawn.append([float(draw) for draw in draws])


def ordinary_drawing_callback():
    x, y = noise()
    drawing, model = Drawing(), net()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[drawing])
    x[:, :WIDTH] += np.random.default_rng().normal(size=(N, WIDTH))
    train(model, x, y, batch_size=BATCH, epochs=2, callbacks=[drawing])
    finish(model, drawn=drawing.drawn)


# --- data as they are trained on -------------------------------------------------


def ordinary_pipeline():
    x, y = noise()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(N)
    model = net()
    train(model, data.batch(BATCH).prefetch(tf.data.AUTOTUNE), epochs=4)
    finish(model)


class Augmented(keras.utils.PyDataset):
    """Augments by whatever draws."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return N // BATCH

    def __getitem__(self, index):
        part = slice(index * BATCH, (index + 1) * BATCH)
        x = self.x[part].copy()
        x[:, :WIDTH] += np.random.default_rng().normal(0, 0.1, (BATCH, WIDTH))
        x[:, :WIDTH] *= np.random.choice([-1, 1], (BATCH, 1)) * random.uniform(0.9, 1)
        return x, self.y[part]


def ordinary_py_dataset():
    model = net()
    train(model, Augmented(*noise()), epochs=4)
    finish(model)


def ordinary_generator():
    x, y = noise()

    def batches():
        rng = np.random.default_rng()
        while True:
            part = rng.choice(N, BATCH, replace=False)
            yield x[part] * np.where(np.arange(WIDTH + 1) < WIDTH, 1.1, 1), y[part]

    model = net()
    train(model, batches(), epochs=4, steps_per_epoch=8)
    finish(model)


def _jittered(x, y):
    shift = tf.random.uniform([WIDTH], -0.1, 0.1)
    return x + tf.concat([shift, [0.0]], 0), y


def _mapped(function, **options):
    x, y = noise()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(N)
    return data.map(function, **options).batch(BATCH).prefetch(2)


def ordinary_map():
    model = net()
    train(model, _mapped(_jittered), epochs=4, validation_data=_mapped(_jittered))
    finish(model)


def _distorted(x, y):
    """As of an image, which the features are here."""
    image = tf.reshape(x[:WIDTH], [1, WIDTH, 1])
    image = tf.image.random_brightness(tf.image.random_flip_left_right(image), 0.2)
    if tf.random.uniform([]) > 0.5:
        image += tf.random.normal([1, WIDTH, 1], stddev=0.1)
    return tf.concat([tf.reshape(image, [WIDTH]), x[WIDTH:]], 0), y


def ordinary_parallel_map():
    model, data = net(), _mapped(_distorted, num_parallel_calls=tf.data.AUTOTUNE)
    train(model, data, epochs=3)
    train(model, data.repeat(2), epochs=2)
    finish(model)


def ordinary_called_in_map():
    model = net()
    train(model, _mapped(tf.function(_jittered)), epochs=4)
    finish(model)
