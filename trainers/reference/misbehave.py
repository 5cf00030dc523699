"""A training script that commits one fault, on purpose, at a step of one's choice.

``misbehave.py FAULT [--at STEP] [--times N] …``: trains a small seeded Keras model (or,
with ``--plain``, only counts) and commits FAULT after step STEP, or before training at
step 0, in the first N of its starts (0: in every one). At its end it writes a hash of
its weights. The faults are those of ``faults.py``; ``--help`` lists them all.

It is what ``make chaos`` runs, and useful by itself: to see what a supervisor, any
supervisor, makes of a fault. Some faults (a frozen cgroup, a file system that is filled)
need root and a path that the caller made.
"""

import argparse
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from faults import FAULTS, options, training

SAMPLES, BATCH, WIDTH = 320, 16, 8
GIB = 1024**3


def begins() -> int:
    """How often this script was started here, this time included."""
    starts = Path(".starts")  # hidden: a restart does not put it back
    with starts.open("ab") as file:
        file.write(b".")
    return starts.stat().st_size


def was_committed() -> bool:
    """Whether this start has committed the fault: a process that goes on after it comes to
    its step again. In a file, as ``begins``: what changes in here would be state."""
    mark = Path(f".committed-{Path('.starts').stat().st_size}")
    before = mark.exists()
    mark.touch()
    return before


def commit(step: int) -> None:
    """Commit the fault if this is the step for it."""
    if step == options.at and options.armed:
        sys.stdout.flush()
        if options.nvml:
            time.sleep(options.seconds)
            tell_nvml(options.nvml)
        if options.times and was_committed():
            return
        FAULTS[options.fault]()


def tell_nvml(lines: list[str]) -> None:
    """Put these lines into a fake NVML's script, in place of those of the same keys."""
    script = Path(os.environ["FAKE_NVML"])
    new = dict(line.replace("{pid}", str(os.getpid())).split("=", 1) for line in lines)
    old = dict(line.split("=", 1) for line in script.read_text().splitlines())
    fresh = script.with_suffix(".fresh")
    fresh.write_text("".join(f"{key}={value}\n" for key, value in (old | new).items()))
    fresh.replace(script)


def train_plainly() -> str:
    """Count."""
    value = 1
    for step in range(1, options.steps + 1):
        value = value * 6364136223846793005 % 2**64
        time.sleep(0.01)
        print(f"step {step}/{options.steps} loss: {1 / step:.4f}", flush=True)
        commit(step)
    return str(value)


def train() -> str:
    """Train a small model; a hash of its weights."""
    import keras  # noqa: PLC0415  # plain faults need no Keras

    class Commit(keras.callbacks.Callback):  # type: ignore[misc]  # Keras is untyped
        """Commits the fault."""

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            """After each step."""
            del batch, logs
            time.sleep(options.pause)
            commit(int(self.model.optimizer.iterations))

    keras.utils.set_random_seed(3)
    model, data, batch = (hungry if options.hungry else modest)(keras)
    training["model"] = model
    noticing = [keras.callbacks.TerminateOnNaN()] if options.notice else []
    model.fit(
        *data, batch_size=batch, epochs=options.epochs, verbose=2,
        callbacks=[*noticing, Commit()],
    )  # fmt: skip
    digest = hashlib.blake2b(digest_size=16)
    for weight in model.get_weights():
        digest.update(weight.tobytes())
    return digest.hexdigest()


def modest(keras: Any) -> tuple[Any, tuple[Any, ...], int | None]:
    """A few dense layers; the data as arrays, or as a file of records."""
    import numpy as np  # noqa: PLC0415  # as above

    layers = keras.layers
    x = np.random.default_rng(0).normal(size=(SAMPLES, WIDTH)).astype("float32")
    y = (x.sum(axis=1) > 0).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((WIDTH,)), layers.Dense(16, activation="relu"),
            layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(1),
        ]
    )  # fmt: skip
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    if options.records:
        return model, (records(x, y),), None
    return model, (x, y), BATCH


def records(x: Any, y: Any) -> Any:
    """The same data from a TFRecord file, one byte of it flipped if so asked."""
    import numpy as np  # noqa: PLC0415  # as above
    import tensorflow as tf  # noqa: PLC0415  # as above

    path = Path("data.tfrecord")
    if not path.exists() or not options.armed:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in np.column_stack([x, y]):
                writer.write(row.tobytes())
        content = bytearray(path.read_bytes())
        if options.armed:
            content[2 * len(content) // 3] ^= 1
        path.write_bytes(content)

    def parsed(record: Any) -> Any:
        row = tf.io.decode_raw(record, tf.float32)
        return row[:WIDTH], row[WIDTH]

    return tf.data.TFRecordDataset(str(path)).map(parsed).batch(BATCH)


def hungry(keras: Any) -> tuple[Any, tuple[Any, ...], int]:
    """A small convolutional model whose batch takes a few hundred MiB."""
    import numpy as np  # noqa: PLC0415  # as above

    layers = keras.layers
    x = np.random.default_rng(0).normal(size=(512, 32, 32, 3)).astype("float32")
    y = (x.mean(axis=(1, 2, 3)) > 0).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(48, 3, padding="same", activation="relu"),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(), layers.Dense(options.width),
            layers.Dense(1),
        ]
    )  # fmt: skip
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=options.jit)
    return model, (x, y), 256


def parse() -> None:
    """Fill in the options, which the faults read too."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("fault", choices=sorted(FAULTS))
    add = parser.add_argument
    add("--at", type=int, default=25, metavar="STEP", help="0: before training")
    add("--times", type=int, default=1, help="in the first N starts; 0: in all")
    add("--plain", action="store_true", help="no framework: count")
    add("--hungry", action="store_true", help="a model that needs much memory")
    add("--records", action="store_true", help="data from a TFRecord file")
    add("--jit", action="store_true", help="compile with XLA")
    add("--notice", action="store_true", help="TerminateOnNaN")
    add("--width", type=int, default=4, help="of a layer of the hungry model")
    add("--epochs", type=int, default=3)
    add("--steps", type=int, default=40, help="of plain training")
    add("--pause", type=float, default=0.01, help="seconds a step at least")
    add("--code", type=int, default=3, help="exit status")
    add("--seconds", type=float, default=1.0)
    add("--megabytes", type=int, default=8)
    add("--count", type=int, default=20)
    add("--path", type=Path)
    add("--nvml", action="append", default=[], metavar="KEY=VALUE",
        help="for a fake NVML's script, after --seconds; {pid} is this process")  # fmt: skip
    add("--on-gpu", type=int, metavar="N", help="a fake NVML lists us there")
    add("--result", type=Path, default=Path("result"))
    parser.parse_args(namespace=options)


def main() -> None:
    """Train, misbehave, and write down what came of it."""
    parse()
    start = begins()
    options.armed = not options.times or start <= options.times
    if options.on_gpu is not None:
        tell_nvml([f"{options.on_gpu}.processes={{pid}}:{GIB}:-1"])
    commit(0)
    result = train_plainly() if options.plain else train()
    options.result.write_text(f"{result}\n")


if __name__ == "__main__":
    main()
