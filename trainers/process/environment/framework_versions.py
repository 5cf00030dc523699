"""Versions of TensorFlow and Keras: known, tried, or refused. One answer for all who ask.

Exact resume leans on private names, so a pair of versions is *known* once ``make matrix``
has run it. Any other is tried by a self-test, once for each environment: if that holds,
it runs, with a line of warning. ``run`` asks when the script imports TensorFlow,
``trainwarden check`` by ``launch.py --versions``.
"""

import functools
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from trainers.process.environment import self_test
from trainers.process.script import isolation

KNOWN = {"2.21": ("3.15",)}
"""TensorFlow → Keras: the pairs of which every cell was run (docs/versions.md; the first
is what ``make test`` runs with)."""

KNOWN_ON_TORCH = {"2.13": ("3.15",)}
"""The same of PyTorch and Keras (``make certify-torch``)."""

UNTRIED_ON_TORCH = (
    "{} was not tried as a whole: a self-test decides, at the first fit of a script that"
    " trains on it, whether fits are resumed"
)
HELD_ON_TORCH = "{} was not tried as a whole: its self-test held, so fits are resumed"
FAILED_ON_TORCH = "{} is watched and restarted, but its fits are not resumed: its self-test failed ({})"

LEGACY = (
    "tf_keras is Keras 2: scripts that train with it are watched, restarted and told why"
    " they died; their fits are not resumed exactly"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Of one interpreter's distributions; None: not there, or without a version."""

    python: str
    tensorflow: str | None
    keras: str | None
    numpy: str | None
    tf_keras: str | None = None

    @property
    def pair(self) -> str:
        """For a sentence."""
        return f"TensorFlow {self.tensorflow} with Keras {self.keras}"

    @property
    def all(self) -> tuple[str | None, ...]:
        """What a self-test may depend on."""
        return self.python, self.tensorflow, self.keras, self.numpy


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionVerdict:
    """Whether training is supervised with these versions."""

    versions: Versions
    refused: str | None = None
    """Why not, in a sentence."""
    warning: str | None = None
    """What to say of them although it is."""


def installed(name: str) -> str | None:
    """The version of the distribution ``name``; TensorFlow goes by several."""
    for candidate in (name, f"{name}-cpu", f"{name}-gpu", f"{name}-intel"):
        try:
            return metadata.version(candidate)
        except metadata.PackageNotFoundError:
            continue
    return None


def here() -> Versions:
    """Those of this interpreter."""
    names = ("tensorflow", "keras", "numpy", "tf_keras")
    found = {name: installed(name) for name in names}
    return Versions(python=platform.python_version(), **found)


def minor(version: str) -> str:
    """The first two numbers of ``version``."""
    return ".".join(version.split(".")[:2])


def is_known(versions: Versions) -> bool:
    """Whether the pair was run as a whole."""
    if versions.tensorflow is None or versions.keras is None:
        return False
    return minor(versions.keras) in KNOWN.get(minor(versions.tensorflow), ())


def judge(
    versions: Versions, tried: Callable[[Versions], str | None]
) -> VersionVerdict:
    """What to do with ``versions``; ``tried``: what a self-test finds wrong with them."""
    for name in ("tensorflow", "keras"):
        if getattr(versions, name) is None:
            sentence = f"the version of {name} cannot be told"
            return VersionVerdict(versions=versions, refused=sentence)
    if is_known(versions):
        return VersionVerdict(versions=versions)
    wrong = tried(versions)
    if wrong is not None:
        sentence = f"{versions.pair} is not supported: its self-test failed ({wrong})"
        return VersionVerdict(versions=versions, refused=sentence)
    newest = next(iter(KNOWN))
    return VersionVerdict(
        versions=versions,
        warning=(
            f"{versions.pair} is not one of the pairs that were tried as a whole (the"
            f" newest is {newest} with {KNOWN[newest][-1]}): its self-test held, so it runs"
        ),
    )


@functools.cache
def verdict() -> VersionVerdict:
    """That on the versions of this interpreter. Takes some 15 s where they are not known,
    once for each environment."""
    return judge(here(), _tried)


def _tried(versions: Versions) -> str | None:
    return self_test.wrong_with(versions.all)


def on_jax() -> dict[str, str | None]:
    """The versions that decide how a fit of Keras on JAX runs."""
    return {name: installed(name) for name in ("keras", "jax", "jaxlib")}


def on_torch() -> dict[str, str | None]:
    """The versions that decide how a fit of Keras on PyTorch runs."""
    return {name: installed(name) for name in ("keras", "torch")}


def is_known_on_torch(found: Mapping[str, str | None]) -> bool:
    """Whether these versions were tried as a whole."""
    keras, torch = found["keras"], found["torch"]
    known = () if torch is None else KNOWN_ON_TORCH.get(minor(torch), ())
    return keras is not None and minor(keras) in known


def tried_on_torch(found: Mapping[str, str | None]) -> str | None:
    """What a self-test finds wrong with versions of Keras on PyTorch that were not tried
    as a whole; None: nothing, or they were. Once for each environment."""
    if is_known_on_torch(found):
        return None
    if None in found.values():
        return "its version cannot be told"
    versions = (platform.python_version(), *found.values(), installed("numpy"))
    return self_test.wrong_with(versions, backend="torch")


def strange_inside(wrong: list[str]) -> str:
    """Why a known pair is refused that is not as it was; ``wrong``: what is not."""
    return "Keras is not as expected inside: " + "; ".join(wrong)


def _refused() -> str | None:
    """What ``run`` would say instead of training, at the import or at the first fit."""
    found = verdict()
    if found.refused is not None or found.warning is not None:
        return found.refused  # the self-test has looked inside
    names = self_test.kept("names", found.versions.all)
    if names is not None and names.exists():
        return None
    os.environ.update(self_test.ENVIRONMENT_OF_TEST)
    backend = isolation.load("trainers.backends.selected").backend
    wrong = backend.fit.self_test()
    if wrong:
        return strange_inside(wrong)
    self_test.keep(names, found.versions.all)
    return None


def _with_torch() -> dict[str, str] | None:
    """What becomes of a script that trains on PyTorch; None: not both are here.

    A self-test is run only where PyTorch is what Keras computes with here.
    """
    found = on_torch()
    if None in found.values():
        return None
    pair = f"Keras {found['keras']} on PyTorch {found['torch']}"
    if is_known_on_torch(found):
        return {"pair": pair}
    if os.environ.get("KERAS_BACKEND") != "torch":
        return {"pair": pair, "warning": UNTRIED_ON_TORCH.format(pair)}
    failed = tried_on_torch(found)
    if failed is None:
        return {"pair": pair, "warning": HELD_ON_TORCH.format(pair)}
    return {"pair": pair, "warning": FAILED_ON_TORCH.format(pair, failed)}


def main() -> int:
    """Print, as a JSON object, what becomes of a script in this interpreter."""
    found = here()
    if found.tensorflow is None:
        sys.stdout.write(json.dumps({"absent": True, "torch": _with_torch()}))
        return 0
    answer = {
        "torch": _with_torch(),
        "pair": found.pair,
        "refused": _refused(),
        "warning": verdict().warning,
        "legacy": None if found.tf_keras is None else LEGACY,
    }
    sys.stdout.write(json.dumps(answer))
    return 0
