"""TensorFlow behind the Protocol of backends: which module answers for which part."""

from typing import Any

from trainers.backends import base
from trainers.backends.tensorflow import (
    fit_compat,
    model_digest,
    model_variables,
    random_state,
    tensor_values,
    tracing,
)
from trainers.backends.tensorflow.allocator.allocator_probe import AllocatorProbe
from trainers.process.attempt_reporting import Attempt


class TensorFlowBackend:
    """Keras on TensorFlow."""

    fit: base.FitSupport = fit_compat
    variables: base.ModelVariables = model_variables
    values: base.VariableValues = tensor_values
    random: base.RandomStates = random_state
    traces: base.StepTraces = tracing

    def digest(self, model: Any, element_spec: Any) -> str | None:
        """See ``model_digest``."""
        return model_digest.of(model, element_spec)

    def memory_probe(
        self, attempt: Attempt, *, limit_bytes: int | None
    ) -> AllocatorProbe:
        """See ``AllocatorProbe``."""
        return AllocatorProbe(attempt, limit_bytes=limit_bytes)
