"""What slices cost and save: peak memory and step time, jit off and on.

``python -m tests.bench.microbatch [--batch 256] [--steps 6]
[--precision mixed_float16]``

A convolution model is trained in this process under TensorFlow's BFC allocator,
without a limit that matters. k = 1 is Keras' own train step. All variants of one
compilation take turns, epoch by epoch, so that times are compared within one run; the
time of a variant is that of its fastest epoch, its peak the highest.
"""

# ruff: noqa: PLC0415  # TensorFlow is imported once its settings are in place
# ruff: noqa: T201  # printing is the job

import argparse
import os
import time
from dataclasses import dataclass, field
from typing import Any

SLICES = (1, 2, 4, 8)
ROUNDS = 4
LIMIT_MIB = 6000


@dataclass
class Variant:
    """One model with its way of training."""

    slices: int
    model: Any
    seconds: list[float] = field(default_factory=list)
    peak_bytes: int = 0

    def epoch(self, x: Any, y: Any, *, batch: int) -> None:
        """Train an epoch, and note time and peak."""
        from trainers.backends.tensorflow.allocator import peak_readings
        from trainers.microbatch import prepare

        prepared = prepare.prepare(
            self.model,
            slice_size=None if self.slices == 1 else batch // self.slices,
            calibrate=False,
            slice_ceiling=None,
            memory_limit_bytes=None,
            allow_inexact=False,
            first_batch=lambda: (x[:batch], y[:batch]),
            report=lambda *_, **__: None,
        )
        peak_readings.reset_peak()
        before = time.perf_counter()
        self.model.fit(x, y, batch_size=batch, verbose=0)
        self.seconds.append(time.perf_counter() - before)
        prepared.restore()
        reading = peak_readings.read()
        self.peak_bytes = max(self.peak_bytes, reading.peak_bytes if reading else 0)


def build(*, jit: bool) -> Any:
    """Two convolutions over 48 x 48 images."""
    import keras
    from keras import layers

    conv = {"padding": "same", "activation": "relu"}
    model = keras.Sequential(
        [
            keras.Input((48, 48, 1)),
            layers.Conv2D(16, 3, **conv),
            layers.Conv2D(16, 3, **conv),
            layers.MaxPooling2D(4),
            layers.Conv2D(32, 3, **conv),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=jit)
    return model


def measure(*, jit: bool, batch: int, steps: int) -> list[Variant]:
    """Train all variants in turn; the first epoch of each compiles and is dropped."""
    import numpy as np

    draw = np.random.default_rng(1)
    x = draw.normal(size=(batch * steps, 48, 48, 1)).astype("float32")
    y = draw.integers(0, 10, size=(batch * steps,))
    variants = [Variant(slices=k, model=build(jit=jit)) for k in SLICES]
    for _ in range(ROUNDS + 1):
        for variant in variants:
            variant.epoch(x, y, batch=batch)
    for variant in variants:
        del variant.seconds[0]
    return variants


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--precision", default="float32", help="Keras' dtype policy")
    given = parser.parse_args()
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(LIMIT_MIB)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from trainers.backends.tensorflow.allocator import cpu_pool

    cpu_pool.in_one_piece(LIMIT_MIB * 2**20)
    import keras

    keras.config.set_dtype_policy(given.precision)
    print("jit  slices  peak MiB  of k=1  ms a step  of k=1")
    for jit in (False, True):
        variants = measure(jit=jit, batch=given.batch, steps=given.steps)
        base = variants[0]
        for one in variants:
            seconds = min(one.seconds)
            print(
                f"{'on' if jit else 'off':4} {one.slices:5} "
                f"{one.peak_bytes / 2**20:9.0f} {one.peak_bytes / base.peak_bytes:7.2f} "
                f"{seconds / given.steps * 1000:10.0f} {seconds / min(base.seconds):7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
