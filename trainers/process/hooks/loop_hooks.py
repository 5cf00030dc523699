"""Hooks in Keras and TensorFlow by which a loop of the script's own is followed."""

import functools
import inspect
import math
import os
from types import ModuleType
from typing import Any

from trainers.process.hooks.own_steps import OwnSteps


def hook_optimizers(steps: OwnSteps, module: ModuleType) -> None:
    """Listen to ``Optimizer.apply`` of ``keras.src.optimizers.base_optimizer``."""
    base = module.BaseOptimizer
    original = base.apply

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps.applied(self)
        return original(self, *args, **kwargs)

    base.apply = apply


def hook_trainer(steps: OwnSteps, trainer: ModuleType) -> None:
    """Listen to ``evaluate`` and ``predict`` of ``keras.src.backend.tensorflow.trainer``."""
    kind = trainer.TensorFlowTrainer
    for name in ("evaluate", "predict"):
        setattr(kind, name, _followed(steps, name, getattr(kind, name)))


def _followed(steps: OwnSteps, name: str, original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs).arguments
        given = {key: one for key, one in bound.items() if one is not self}
        return steps.evaluation(
            self, name, lambda: original(self, *args, **kwargs), given
        )

    return followed


def hook_saving(steps: OwnSteps, module: ModuleType) -> None:
    """Listen to what ``keras.src.saving.saving_api`` saves and loads."""
    for name in ("save_model", "save_weights"):
        setattr(module, name, _writing(steps, getattr(module, name)))
    for name in ("load_model", "load_weights"):
        setattr(module, name, _reading(steps, getattr(module, name)))


def _reading(steps: OwnSteps, original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        path = signature.bind(*args, **kwargs).arguments["filepath"]
        if isinstance(path, (str, os.PathLike)):
            steps.reads(path)
        return original(*args, **kwargs)

    return load


def _writing(steps: OwnSteps, original: Any) -> Any:
    @functools.wraps(original)
    def save(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return original(model, filepath, *args, **kwargs)

        if not isinstance(filepath, (str, os.PathLike)):
            return run()
        return steps.writes(filepath, state_bytes(model), run)

    return save


def state_bytes(model: Any) -> int:
    """What its variables take, most often: four bytes a number."""
    return 4 * sum(math.prod(one.shape) for one in getattr(model, "variables", ()))


def hook_checkpoints(steps: OwnSteps, module: ModuleType) -> None:
    """Listen to ``TrackableSaver`` of TensorFlow's checkpoints: ``save``, ``restore``."""
    original, restores = module.TrackableSaver.save, module.TrackableSaver.restore

    @functools.wraps(original)
    def save(self: Any, file_prefix: Any, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return original(self, file_prefix, *args, **kwargs)

        if not isinstance(file_prefix, str):
            return run()
        return steps.writes_checkpoint(file_prefix, run)

    @functools.wraps(restores)
    def restore(self: Any, save_path: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(save_path, str):
            steps.reads(save_path)
        return restores(self, save_path, *args, **kwargs)

    module.TrackableSaver.save = save
    module.TrackableSaver.restore = restore
