"""An ordinary script: a small network of convolutions, trained on the first GPU.

In the environment: ``BATCH``, ``WIDTH`` (channels), ``PIXELS``, ``EPOCHS``; ``DIE`` and
``FAULT`` name a file each: it is made, and the process killed or the GPU's context
broken, in the second epoch, once. ``OUT`` gets the digest of the weights.
"""

import hashlib
import os
import signal

import keras
import numpy as np

BACKEND = keras.backend.backend()
BATCH = int(os.environ.get("BATCH", "32"))
WIDTH = int(os.environ.get("WIDTH", "16"))
PIXELS = int(os.environ.get("PIXELS", "32"))
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEPS = int(os.environ.get("STEPS", "8"))
XLA = {"": "auto", "0": False, "1": True}[os.environ.get("XLA", "")]

keras.utils.set_random_seed(7)
if "EXACT" in os.environ and BACKEND == "tensorflow":
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
if "EXACT" in os.environ and BACKEND == "torch":
    import torch

    torch.use_deterministic_algorithms(True)
if "GROWTH" in os.environ:
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
if "FRACTION" in os.environ:
    import torch

    torch.cuda.set_per_process_memory_fraction(float(os.environ["FRACTION"]))


def once(variable):
    """Whether the file that ``variable`` names was not there; it is now."""
    path = os.environ.get(variable)
    if path is None or os.path.exists(path):
        return False
    open(path, "w").close()
    return True


class Trouble(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 1 and batch == STEPS // 2:
            if once("DIE"):
                os.kill(os.getpid(), signal.SIGKILL)
            if once("FAULT"):
                import cuda_driver

                cuda_driver.use_first_gpu()
                print("fault:", cuda_driver.fault(), flush=True)


model = keras.Sequential(
    [
        keras.layers.Input((PIXELS, PIXELS, 3)),
        keras.layers.Conv2D(WIDTH, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(WIDTH, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(WIDTH, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=XLA,
)
draw = np.random.default_rng(3)
samples = draw.standard_normal((BATCH * STEPS, PIXELS, PIXELS, 3), dtype=np.float32)
labels = draw.integers(0, 10, BATCH * STEPS)
history = model.fit(
    samples, labels, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[Trouble()]
)
digest = hashlib.sha256()
for weight in model.get_weights():
    digest.update(np.ascontiguousarray(weight).tobytes())
print("device", end=" ")
if BACKEND == "tensorflow":
    import tensorflow as tf

    print(model.trainable_variables[0].value.device)
elif BACKEND == "jax":
    print(model.trainable_variables[0].value.devices())
else:
    print(model.trainable_variables[0].value.device)
if "OUT" in os.environ:
    with open(os.environ["OUT"], "w") as out:
        out.write(f"{digest.hexdigest()} {history.history['loss'][-1]!r}")
