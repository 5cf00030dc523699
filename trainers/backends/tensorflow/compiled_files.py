"""The directory in memory where TensorFlow keeps what XLA compiled.

Its persistent cache reads and writes by TensorFlow's own file systems, and one of them
(``ram://``) lies in this process. So what it reads are bytes that were verified a moment
ago, and no full disk can fail a compilation: where the cache cannot be written,
TensorFlow fails the step that was compiled.
"""

from tensorflow.io import gfile

PLACE = "ram://trainwarden/compilations"
PREFIX = "trainwarden"
FLAGS = (
    f"--tf_xla_persistent_cache_directory={PLACE}"
    f" --tf_xla_persistent_cache_prefix={PREFIX}"
)


class TensorFlowFiles:
    """What lies there. TensorFlow writes aside and renames: what has its name is whole."""

    def __init__(self) -> None:
        """Make the directory."""
        gfile.makedirs(PLACE)

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
