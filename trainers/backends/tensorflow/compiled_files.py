"""The directory in memory where TensorFlow keeps what XLA compiled.

Its persistent cache reads and writes by TensorFlow's own file systems, and one of them
(``ram://``) lies in this process. So what it reads are bytes that were verified a moment
ago, and no full disk can fail a compilation: where the cache cannot be written,
TensorFlow fails the step that was compiled.
"""

from typing import Any

import tensorflow as tf
from tensorflow.io import gfile
from tensorflow.python.framework import config

from trainers.process.environment.free_memory import free_memory

PLACE = "ram://trainwarden/compilations"
PREFIX = "trainwarden"
FLAGS = (
    f"--tf_xla_persistent_cache_directory={PLACE}"
    f" --tf_xla_persistent_cache_prefix={PREFIX}"
)
SHARE = 4
"""One part in so many of the memory that is free may be filled."""


class TensorFlowFiles:
    """What lies there. TensorFlow writes aside and renames: what has its name is whole.

    Its file systems raise ``tf.errors.OpError``, which is no OSError.
    """

    def __init__(self) -> None:
        """Make the directory."""
        gfile.makedirs(PLACE)

    def room_bytes(self) -> int | None:
        """How much may be put there; None: nobody tells how much memory is free."""
        least = min((found.nbytes for found in free_memory()), default=None)
        return None if least is None else max(0, least // SHARE)

    def settings(self) -> list[str]:
        """What a script may set in this process that TensorFlow's key is without."""
        asked: Any = tf.config
        return [
            f"determinism={config.is_op_determinism_enabled()}",
            f"tf32={asked.experimental.tensor_float_32_execution_enabled()}",
            f"threads={asked.threading.get_intra_op_parallelism_threads()}",
        ]

    def names(self) -> list[str]:
        """Of compilations."""
        return [
            name
            for name in gfile.listdir(PLACE)
            if name.startswith(PREFIX) and name.endswith(".pb")
        ]

    def read(self, name: str) -> bytes | None:
        """The compilation ``name``; None: not yet whole."""
        with gfile.GFile(f"{PLACE}/{name}", "rb") as file:
            content: bytes = file.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Let TensorFlow find ``content``."""
        with gfile.GFile(f"{PLACE}/{name}", "wb") as file:
            file.write(content)

    def clear(self) -> None:
        """TensorFlow finds nothing any more, and compiles. Not while it does so."""
        for name in self.names():
            gfile.remove(f"{PLACE}/{name}")
