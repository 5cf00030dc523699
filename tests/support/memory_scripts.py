"""Scripts about memory, as people write them: under a limit on CPU tensors."""

HEAD = """
import json, os, sys, time
import keras, numpy as np, tensorflow as tf
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(1),
])
model.compile(
    "adam", keras.losses.BinaryCrossentropy(from_logits=True),
    jit_compile=os.environ.get("JIT") == "1",
)
MIB = 2**20
"""

FRAGMENTING = (
    HEAD
    + """
class Holes(keras.callbacks.Callback):
    '''Keeps every other of some blocks: what was between them is free, in pieces.'''
    kept = []
    def on_train_batch_end(self, batch, logs=None):
        if len(self.kept) < 40:
            blocks = [tf.zeros([MIB], tf.uint8) for _ in range(8)]
            self.kept += blocks[::2]
        time.sleep(0.02)


model.fit(x, y, batch_size=16, epochs=int(sys.argv[1]), callbacks=[Holes()], verbose=0)
"""
)
"""Every step leaves four holes of 1 MiB, until there are 40."""
