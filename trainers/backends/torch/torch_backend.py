"""Keras on PyTorch: which module answers for which part."""

import functools
from typing import Any

import torch

from trainers.backends import base, no_recovery, no_step_figures, trial_support
from trainers.backends.memory.paced_probe import PacedProbe
from trainers.backends.no_probe import NoProbe
from trainers.backends.slices.slice_support import SliceSupport
from trainers.backends.torch import (
    torch_fit,
    torch_hidden,
    torch_memory,
    torch_random,
    torch_step_trials,
    torch_traces,
    torch_values,
    torch_variables,
)
from trainers.process.attempt_reporting import Attempt
from trainers.process.script import isolation

SLICES = "trainers.backends.torch.torch_slices"


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
    slicer = "trainers.microbatch.prepare"

    @property
    def calls(self) -> base.FunctionCalls:
        """Nobody asks where no loop is followed."""
        raise NotImplementedError

    @functools.cached_property
    def slices(self) -> SliceSupport:
        """Imported where a batch is sliced: nothing else is held up, or fails, by it."""
        module: Any = isolation.load(SLICES)
        found: SliceSupport = module
        return found

    def digest(self, model: Any, element_spec: Any) -> str | None:  # noqa: ARG002  # of the Protocol
        """Not known: no sizes of slices are measured."""
        return None

    def memory_probe(
        self, attempt: Attempt, *, limit_bytes: int | None
    ) -> base.MemoryProbe:
        """Of the device that Keras computes on: elsewhere than on GPUs nothing is read."""
        device = torch_fit.device()
        if device.type != "cuda":
            return NoProbe(attempt, limit_bytes=limit_bytes)
        reader = torch_memory.TorchReader(torch.cuda, device.index)
        return PacedProbe(attempt, reader, limit_bytes=limit_bytes)
