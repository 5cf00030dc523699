"""What a step needs on JAX: by XLA's own analysis of the compiled step; none is run."""

import time
from typing import Any, NoReturn

import jax
import numpy as np

from trainers.backends import slicing
from trainers.backends.trial_support import StepTrial, TrialPlan

COMPILES = True
WHY_NOT_STEPPED: str | None = (
    "on JAX it is not known what memory steps take that run; alternatives are tried on"
    " TensorFlow"
)
WHY_NOT: str | None = None


def in_use() -> int | None:
    """JAX keeps no figures on the CPU."""
    return None


def peak() -> None:
    """Not counted."""
    return


def reset_peak() -> None:
    """There is none."""
    return


def kept(batch: Any) -> Any:
    """``batch`` as arrays of NumPy."""
    return slicing.map_leaves(np.asarray, batch)


def whole(batch: Any) -> Any:
    """It is: several devices are not followed."""
    return batch


def sized(batch: Any, size: int) -> Any:
    """``size`` samples of ``batch``, some of them again where it has fewer."""
    return slicing.map_leaves(lambda leaf: leaf[np.arange(size) % len(leaf)], batch)


def trained_once(model: Any) -> None:
    """Make the variables of the optimizer, which only a step makes."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)


def tried(
    model: Any,
    batch: Any,
    short: Any | None,  # noqa: ARG001  # of the Protocol
    plan: TrialPlan,  # noqa: ARG001
) -> StepTrial:
    """What a step on ``batch`` adds to the model and the batch themselves."""
    began = time.perf_counter()
    state = model._get_jax_state(
        trainable_variables=True,
        non_trainable_variables=True,
        optimizer_variables=True,
        metrics_variables=True,
        purge_model_variables=False,
    )
    compiled = jax.jit(model.train_step, donate_argnums=0).lower(state, batch).compile()
    found = compiled.memory_analysis()
    added = (
        found.temp_size_in_bytes
        + found.output_size_in_bytes
        - found.alias_size_in_bytes
    )
    took = time.perf_counter() - began
    return StepTrial(added_bytes=(added,), first_seconds=took, step_seconds=0.0)


def device() -> NoReturn:
    """Nobody asks: ``WHY_NOT_STEPPED`` is looked at before."""
    raise NotImplementedError


def stepped(_model: Any, _batches: Any) -> NoReturn:
    """As above."""
    raise NotImplementedError
