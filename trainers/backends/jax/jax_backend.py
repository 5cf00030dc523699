"""Keras on JAX: which module answers for which part."""

from typing import Any

import jax

from trainers.backends import base, no_recovery, no_step_figures, trial_support
from trainers.backends.jax import (
    jax_fit,
    jax_hidden,
    jax_memory,
    jax_random,
    jax_step_trials,
    jax_traces,
    jax_values,
    jax_variables,
)
from trainers.backends.memory.paced_probe import PacedProbe
from trainers.backends.no_probe import NoProbe
from trainers.backends.slices.slice_support import SliceSupport
from trainers.process.attempt_reporting import Attempt


class JaxBackend:
    """Each part; loops of a script's own are not followed, nor their calls."""

    fit: base.FitSupport = jax_fit
    variables: base.ModelVariables = jax_variables
    values: base.VariableValues = jax_values
    random: base.RandomStates = jax_random
    traces: base.StepTraces = jax_traces
    hidden: base.HiddenParts = jax_hidden
    evidence: base.StepFigures = no_step_figures
    recovery: base.StepRecovery = no_recovery
    trials: trial_support.StepTrials = jax_step_trials
    slicer = "trainers.microbatch.jax_prepare"

    @property
    def calls(self) -> base.FunctionCalls:
        """Nobody asks where no loop is followed."""
        raise NotImplementedError

    @property
    def slices(self) -> SliceSupport:
        """``jax_prepare`` knows its own, and asks nobody."""
        raise NotImplementedError

    def digest(self, model: Any, element_spec: Any) -> str | None:  # noqa: ARG002  # of the Protocol
        """Not known: no sizes of slices are measured."""
        return None

    def memory_probe(
        self, attempt: Attempt, *, limit_bytes: int | None
    ) -> base.MemoryProbe:
        """Of the device that is computed on: a CPU's allocator tells nothing."""
        device = device_in_use()
        if device.platform == "cpu":
            return NoProbe(attempt, limit_bytes=limit_bytes)
        reader = jax_memory.JaxReader(device)
        return PacedProbe(attempt, reader, limit_bytes=limit_bytes)


def device_in_use() -> Any:
    """The script's default device, else the first."""
    chosen = jax.config.jax_default_device
    if isinstance(chosen, str):  # a platform
        return jax.local_devices(backend=chosen)[0]
    return jax.local_devices()[0] if chosen is None else chosen
