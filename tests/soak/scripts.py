"""What the jobs of a soak train: two kinds whose end is the same to the bit each time."""

EPOCHS = 100
"""Some twenty seconds of training: several faults a job."""

END = """
import hashlib, pathlib, sys
digest = hashlib.sha256(repr(sorted(history.history.items())).encode())
for value in (*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)):
    digest.update(value.tobytes())
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(digest.hexdigest())
path.with_suffix(".new").rename(path)
"""

ARRAYS = (
    """
import keras
import numpy as np

keras.utils.set_random_seed(7)
x = np.random.default_rng(1).normal(size=(2048, 16)).astype("float32")
y = (x.sum(1) > 0).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, "relu"),
    keras.layers.Dropout(0.2), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, batch_size=16, epochs=EPOCHS, verbose=2, validation_split=0.1)
"""
    + END
)

PIPELINE = (
    """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(8)
x = np.random.default_rng(2).normal(size=(2048, 16)).astype("float32")
y = (x.sum(1) > 0).astype("float32")
data = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512)
    .map(lambda a, b: (a + tf.random.normal([16], stddev=0.01), b))
    .batch(16).prefetch(2))
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, "relu"),
    keras.layers.BatchNormalization(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
history = model.fit(data, epochs=EPOCHS, verbose=2)
"""
    + END
)

KINDS = {"arrays": ARRAYS, "pipeline": PIPELINE}
"""``EPOCHS`` stands in for how long they train."""
