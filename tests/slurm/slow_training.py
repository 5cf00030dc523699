"""The script of a small Keras training that takes its time, and tells its last bits.

``train.py RESULT [SECONDS [STEP]]``: the hash of all weights goes to RESULT; a step takes
SECONDS, and step STEP (from 0) lasts as long as there is a file RESULT.hold.
"""

STEPS = 80
SCRIPT = """
import hashlib
import sys
import time
from pathlib import Path

import keras
import numpy as np

RESULT = Path(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
HELD = int(sys.argv[3]) if len(sys.argv) > 3 else -1
HOLD_SECONDS = 60.0


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        del batch, logs
        time.sleep(SECONDS)
        step = int(self.model.optimizer.iterations.numpy()) - 1
        ends = time.monotonic() + HOLD_SECONDS
        while (
            step == HELD
            and Path(f"{RESULT}.hold").exists()
            and time.monotonic() < ends
        ):
            time.sleep(0.05)


keras.utils.set_random_seed(7)
x = np.random.default_rng(1).normal(size=(320, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential(
    [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(x, y, epochs=4, batch_size=16, verbose=0, callbacks=[Slow()])
content = b"".join(weight.tobytes() for weight in model.get_weights())
RESULT.write_text(hashlib.sha256(content).hexdigest())
"""
