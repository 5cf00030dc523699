"""Keras on JAX: which module answers for which part."""

from typing import Any

from trainers.backends import base, no_recovery, no_step_figures, trial_support
from trainers.backends.jax import (
    jax_fit,
    jax_hidden,
    jax_random,
    jax_step_trials,
    jax_traces,
    jax_values,
    jax_variables,
)
from trainers.backends.no_probe import NoProbe


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
    memory_probe = NoProbe

    @property
    def calls(self) -> base.FunctionCalls:
        """Nobody asks where no loop is followed."""
        raise NotImplementedError

    def digest(self, model: Any, element_spec: Any) -> str | None:  # noqa: ARG002  # of the Protocol
        """Not known: no sizes of slices are measured."""
        return None
