"""The pairs that are supported, newest first, and an environment for each."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".matrix"
"""Some 2 GB a pair."""
OLDEST_FREE = re.compile(
    r"(tensor|keras|numpy|protobuf|ml-dtypes|h5py|grpcio|wrapt|gast|absl|flatbuffers"
    r"|scipy|pandas|scikit-learn|optree|setuptools|pip|wheel|opt-einsum|libclang"
    r"|termcolor|six|namex|markdown|werkzeug|rich|google-pasta|astunparse|threadpoolctl)",
    re.IGNORECASE,
)
"""What older versions of TensorFlow and NumPy want older ones of: not pinned here."""
ALSO = ("pytest", "pytest-xdist", "hypothesis", "safetensors", "scikit-learn", "pandas")
"""What the parts need beside our own requirements."""


@dataclass(frozen=True, slots=True)
class VersionPair:
    """TensorFlow and Keras, in a Python."""

    tensorflow: str
    keras: str
    python: str = "3.11"

    @property
    def name(self) -> str:
        """Of its environment."""
        other = "" if self.python == "3.11" else f"-py{self.python}"
        return f"{self.tensorflow}-{self.keras}{other}"

    @property
    def directory(self) -> Path:
        """Its environment."""
        return CACHE / self.name

    @property
    def interpreter(self) -> str:
        """That of its environment."""
        return str(self.directory / "bin" / "python")


PAIRS = (
    VersionPair("2.21.0", "3.15.1"),
    VersionPair("2.21.0", "3.15.1", "3.13"),
    VersionPair("2.21.0", "3.15.1", "3.12"),
    VersionPair("2.21.0", "3.14.1"),
    VersionPair("2.20.0", "3.13.2"),
    VersionPair("2.20.0", "3.12.4"),
    VersionPair("2.19.1", "3.11.3"),
    VersionPair("2.19.1", "3.10.0"),
    VersionPair("2.18.1", "3.8.0"),
    VersionPair("2.17.1", "3.7.0"),
    VersionPair("2.16.2", "3.6.0"),
)


class NoEnvironmentError(Exception):
    """It cannot be made: the sentence says why."""


def made(pair: VersionPair) -> None:
    """See that the environment of ``pair`` is there. Raises NoEnvironmentError."""
    done = pair.directory / ".made"
    if done.exists():
        return
    python = _python(pair.python)
    if python is None:
        message = f"there is no Python {pair.python}"
        raise NoEnvironmentError(message)
    shutil.rmtree(pair.directory, ignore_errors=True)
    pair.directory.mkdir(parents=True)
    pins = pair.directory / "constraints.txt"
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    pins.write_text("\n".join(p for p in pinned if not OLDEST_FREE.match(p)) + "\n")
    _do([python, "-m", "venv", str(pair.directory)])
    wanted = [f"tensorflow=={pair.tensorflow}", f"keras=={pair.keras}", *ALSO]
    pip = [pair.interpreter, "-m", "pip", "--disable-pip-version-check", "install"]
    _do([*pip, "--quiet", "--constraint", str(pins), *wanted, "--editable", str(ROOT)])
    done.touch()


def _python(version: str) -> str | None:
    """An interpreter that runs: a name on the PATH may be a shim that leads nowhere."""
    name = f"python{version}"
    of_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}")
    for one in (shutil.which(name), *map(str, of_pyenv)):
        if one is None:
            continue
        tried = subprocess.run([one, "-c", ""], capture_output=True, check=False)
        if tried.returncode == 0:
            return one
    return None


def gently() -> list[str]:
    """What a command begins with that takes no time from others."""
    nice = shutil.which("nice")
    return [] if nice is None else [nice, "-n", "10"]


def _do(command: list[str]) -> None:
    done = subprocess.run(
        [*gently(), *command], capture_output=True, text=True, check=False,
        env={**os.environ, "PIP_NO_COMPILE": "1"},
    )  # fmt: skip
    if done.returncode:
        message = f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]}"
        raise NoEnvironmentError(message)
