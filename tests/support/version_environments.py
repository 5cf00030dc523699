"""Environments whose distributions say that they are other versions than they are."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import RefusalReason
from tests.support.attempts import LAUNCH, Attempts
from trainers.process.environment import user_cache

SCRIPT = """
import keras
import numpy as np

print("begun")
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
FIT = "model.fit(np.zeros((4, 2)), np.zeros((4, 1)), verbose=0)\n"
BROKEN = """
import builtins
import sys

importing = builtins.__import__

def without(*args, **kwargs):
    module = importing(*args, **kwargs)
    trainer = vars(sys.modules.get("keras.src.trainers.trainer", sys)).get("Trainer")
    if trainer is not None and hasattr(trainer, "_symbolic_build"):
        del trainer._symbolic_build
    return module

builtins.__import__ = without
"""
"""Keras without a name that we lean on, as a later version might be."""


def environment(directory: Path, *, broken: bool = False, **versions: str) -> Path:
    """A directory for PYTHONPATH that lets distributions have these versions."""
    path = directory / "-".join([*versions.values(), "broken" if broken else "whole"])
    for name, version in versions.items():
        info = path / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    path.mkdir(exist_ok=True)
    if broken:
        (path / "sitecustomize.py").write_text(BROKEN)
    return path


def checked(path: Path, cache: Path) -> dict[str, Any]:
    """What ``trainwarden check`` is told of it."""
    done = subprocess.run(
        [sys.executable, str(LAUNCH), "--versions"],
        env={**os.environ, "PYTHONPATH": str(path), user_cache.CACHE: str(cache)},
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def agree(directory: Path, path: Path, *, fits: bool = False) -> dict[str, Any]:
    """That ``check`` and a run say the same of the environment ``path``: what that is."""
    cache = directory / "cache"
    answer = checked(path, cache)
    attempts = Attempts(directory / path.name)
    (directory / path.name / "cwd").mkdir(parents=True)
    text = SCRIPT + FIT * fits
    outcome = attempts.run(
        attempts.script(text, "cwd/train.py"),
        environment={"PYTHONPATH": str(path), user_cache.CACHE: str(cache)},
    )
    refused = outcome.of(RecordKind.REFUSED)
    assert [one["sentence"] for one in refused] == [answer["refused"]] * bool(refused)
    assert (outcome.code == 78) == bool(answer["refused"]), outcome.err
    told = [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]
    assert [one for one in told if "self-test" in one] == (
        [] if answer["warning"] is None else [answer["warning"]]
    )
    if refused and not fits:
        assert refused[0]["reason"] == RefusalReason.VERSIONS
        assert outcome.out == ""
    return answer
