"""Keras on PyTorch: which module answers for which part."""

from typing import Any

from trainers.backends import base, no_recovery, no_step_figures, trial_support
from trainers.backends.no_probe import NoProbe
from trainers.backends.torch import (
    torch_fit,
    torch_hidden,
    torch_random,
    torch_step_trials,
    torch_traces,
    torch_values,
    torch_variables,
)


class TorchBackend:
    """Each part; loops of a script's own are not followed, nor their calls."""

    fit: base.FitSupport = torch_fit
    variables: base.ModelVariables = torch_variables
    values: base.VariableValues = torch_values
    random: base.RandomStates = torch_random
    traces: base.StepTraces = torch_traces
    hidden: base.HiddenParts = torch_hidden
    evidence: base.StepFigures = no_step_figures
    recovery: base.StepRecovery = no_recovery
    trials: trial_support.StepTrials = torch_step_trials
    memory_probe = NoProbe

    @property
    def calls(self) -> base.FunctionCalls:
        """Nobody asks where no loop is followed."""
        raise NotImplementedError

    def digest(self, model: Any, element_spec: Any) -> str | None:  # noqa: ARG002  # of the Protocol
        """Not known: no sizes of slices are measured."""
        return None
