"""Keras on TensorFlow: which module answers for which part."""

import functools
from typing import Any

from trainers.backends import base, trial_support
from trainers.backends.slices import slice_support
from trainers.backends.tensorflow import (
    fit_compat,
    hidden_parts,
    model_digest,
    model_variables,
    step_figures,
    step_recovery,
    step_trials,
    tensor_values,
)
from trainers.backends.tensorflow.allocator.allocator_probe import AllocatorProbe
from trainers.backends.tensorflow.functions import function_calls, tracing
from trainers.backends.tensorflow.randomness import random_state
from trainers.process.script import isolation

SLICES = "trainers.backends.tensorflow.slices.tensorflow_slices"


class TensorFlowBackend:
    """Each part."""

    fit: base.FitSupport = fit_compat
    variables: base.ModelVariables = model_variables
    values: base.VariableValues = tensor_values
    random: base.RandomStates = random_state
    traces: base.StepTraces = tracing
    calls: base.FunctionCalls = function_calls
    hidden: base.HiddenParts = hidden_parts
    evidence: base.StepFigures = step_figures
    recovery: base.StepRecovery = step_recovery
    trials: trial_support.StepTrials = step_trials
    slicer = "trainers.microbatch.prepare"
    digest = staticmethod(model_digest.of)
    memory_probe = AllocatorProbe

    @functools.cached_property
    def slices(self) -> slice_support.SliceSupport:
        """Imported where a batch is sliced: nothing else is held up, or fails, by it."""
        module: Any = isolation.load(SLICES)
        found: slice_support.SliceSupport = module
        return found
