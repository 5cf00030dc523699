"""The peak of a real training: some steps of the first ``fit`` of a script, or of its own
loop over a session, then its end.

``python -m tests.bench.estimate_trial STEPS JIT(0|1|-) POOL_MIB SCRIPT [ARGS...]`` prints the
most that TensorFlow's allocator had in use meanwhile, in bytes. The script is run as it is,
without supervision, by the allocator that GPUs have, its pool in one piece.
"""

# ruff: noqa: PLC0415  # TensorFlow is imported once its settings are in place
# ruff: noqa: T201  # printing is the job

import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any, NoReturn


def _tell_peak() -> NoReturn:
    """Print the peak, and end."""
    from trainers.backends.tensorflow.allocator import peak_readings

    reading = peak_readings.read()
    print(f"PEAK {reading.peak_bytes if reading else 0}", flush=True)
    os._exit(0)


def _ends_after(steps: int) -> Any:
    """A callback that prints the peak after so many steps, and ends the process."""
    import keras

    class Ends(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.done = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
            self.done += 1
            if self.done >= steps:
                _tell_peak()

    return Ends()


def _end_loops_after(steps: int) -> None:
    """The same for a loop over a session: nobody but this counts its steps."""
    from trainers.session import Run

    original = Run.batches

    def batches(self: Run, data: Any) -> Iterator[Any]:
        for batch in original(self, data):
            yield batch
            if self.step + 1 >= steps:
                _tell_peak()

    Run.batches = batches  # type: ignore[method-assign]


def main() -> None:
    """Run the script up to there."""
    steps, jit, pool, script, *rest = sys.argv[1:]
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = pool
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from trainers.backends.tensorflow.allocator import cpu_pool

    cpu_pool.in_one_piece(int(pool) * 2**20)
    import keras

    original = keras.Model.fit

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if jit != "-":
            self.jit_compile = jit == "1"
        kwargs["callbacks"] = [
            *(kwargs.get("callbacks") or ()),
            _ends_after(steps=int(steps)),
        ]
        return original(self, *args, **{**kwargs, "epochs": 10**6})

    keras.Model.fit = fit
    _end_loops_after(int(steps))
    sys.argv = [script, *rest]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
