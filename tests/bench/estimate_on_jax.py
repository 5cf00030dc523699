"""What a step on JAX adds to the resident memory of a process on a CPU.

``python -m tests.bench.estimate_on_jax SCRIPT [ARGS...]`` runs the first four steps of the
first ``fit`` of a script that chooses JAX, and prints of each how far resident memory rose
above what it was before (``/proc/self/clear_refs``). To have blocks given back as they are
freed, say ``MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=65536``.
"""

# ruff: noqa: T201  # printing is the job

import gc
import os
import runpy
import sys
from pathlib import Path
from typing import Any

STEPS = 4
PEAK_AGAIN = "5"
"""Lets the highest resident memory begin anew (proc(5))."""


def resident_kib(name: str) -> int:
    """A line of ``/proc/self/status``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(found.split()[1])


def main() -> None:
    """Run the script up to there."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras  # noqa: PLC0415  # once it knows with what it computes

    class Looks(keras.callbacks.Callback):
        before = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
            gc.collect()
            Path("/proc/self/clear_refs").write_text(PEAK_AGAIN)
            self.before = resident_kib("VmRSS")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
            rose = resident_kib("VmHWM") - self.before
            print(f"step {batch}: {rose / 1024:.1f} MiB", flush=True)
            if batch + 1 >= STEPS:
                os._exit(0)

    original = keras.Model.fit

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **{**kwargs, "callbacks": [Looks()]})

    keras.Model.fit = fit
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
