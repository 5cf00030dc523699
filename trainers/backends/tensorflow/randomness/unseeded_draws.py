"""What TensorFlow draws without any seed: from the entropy of the run.

Three ways, as TensorFlow has three:

- An **eager** operation draws statelessly, with a seed of its own each time. (As an
  attribute of the stateful one a new seed would be a new kernel, kept for ever.)
- An operation in the **graph** of a ``tf.function`` gets a seed when it is traced; its
  kernel goes on from there, and nobody can read where it is.
- One in a function of a **tf.data** pipeline draws by the seed of the sample, if that has
  one (``pipeline_draws``). Else it stays as it is: with a seed of its own it would draw
  the same in each epoch, as each begins it anew.

The private names that this leans on:

| name | why |
| --- | --- |
| ``framework.random_seed.get_seed`` | every random operation asks it for its seeds |
| ``gen_random_ops``' functions | what an eager draw ends in |
| ``gen_stateless_random_ops``' | the same draws by a seed |
| ``StructuredFunctionWrapper`` | traces the functions of tf.data |
| ``stateful_random_ops.non_deterministic_ints`` | the state of a new ``tf.random.Generator`` |
"""

import functools
import threading
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import structured_function
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import random_seed
from tensorflow.python.framework.config import is_op_determinism_enabled
from tensorflow.python.ops import (
    gen_random_ops,
    gen_stateless_random_ops,
    random_ops,
    stateful_random_ops,
)

from trainers.backends.tensorflow.data import pipeline_draws
from trainers.process.script.run_entropy import RunEntropy

NAMES: tuple[tuple[Any, str], ...] = (
    (random_seed, "get_seed"),
    (random_ops, "gen_random_ops"),
    (structured_function, "StructuredFunctionWrapper"),
    (stateful_random_ops, "non_deterministic_ints"),
)

STATELESS = {
    "random_standard_normal": "stateless_random_normal",
    "random_uniform": "stateless_random_uniform",
    "random_uniform_int": "stateless_random_uniform_int",
    "truncated_normal": "stateless_truncated_normal",
    "parameterized_truncated_normal": "stateless_parameterized_truncated_normal",
}
"""Operation → the one that draws the same by a seed: its second input."""


def _by_seed(stateless: Any) -> Any:
    """``stateless``, whose seed comes after the shape."""

    def draw(seed: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
        return stateless(shape, seed, *args, **kwargs)

    return draw


def _gamma(seed: Any, shape: Any, alpha: Any, **kwargs: Any) -> Any:
    # The stateful one draws ``shape`` for each of ``alpha``.
    whole = tf.concat([shape, tf.shape(alpha)], 0)
    draw = gen_stateless_random_ops.stateless_random_gamma_v2
    return draw(whole, seed, alpha, **kwargs)


def _poisson(seed: Any, shape: Any, rate: Any, **kwargs: Any) -> Any:
    whole = tf.concat([shape, tf.shape(rate)], 0)  # as above
    draw = gen_stateless_random_ops.stateless_random_poisson
    return draw(whole, seed, rate, **{"dtype": tf.int64, **kwargs})


def _multinomial(seed: Any, logits: Any, num_samples: Any, **kwargs: Any) -> Any:
    draw = gen_stateless_random_ops.stateless_multinomial
    return draw(logits, num_samples, seed, **kwargs)


def _shuffle(seed: Any, value: Any, **kwargs: Any) -> Any:
    return tf.random.experimental.stateless_shuffle(value, seed, **kwargs)


OTHERS = {
    "random_gamma": _gamma,
    "random_poisson_v2": _poisson,
    "multinomial": _multinomial,
    "random_shuffle": _shuffle,
}


class _Tracing(threading.local):
    """What this thread traces."""

    in_pipeline = 0
    """Functions of tf.data, one in the other."""


_tracing = _Tracing()


def install(entropy: RunEntropy) -> None:
    """From now on what is drawn without a seed comes from ``entropy``."""
    _watch_pipelines()
    _seed_graphs(entropy)
    for name, stateless in STATELESS.items():
        _replace(name, _by_seed(getattr(gen_stateless_random_ops, stateless)), entropy)
    for name, replacement in OTHERS.items():
        _replace(name, replacement, entropy)
    _begin_generators(entropy)
    pipeline_draws.install(entropy)


def _watch_pipelines() -> None:
    wrapper: Any = structured_function.StructuredFunctionWrapper
    original = wrapper.__init__

    @functools.wraps(original)
    def traced(self: Any, *args: Any, **kwargs: Any) -> None:
        _tracing.in_pipeline += 1
        try:
            original(self, *args, **kwargs)
        finally:
            _tracing.in_pipeline -= 1

    wrapper.__init__ = traced


def _has_seed() -> bool:
    """Whether a global one was set where we are."""
    if eager_context.executing_eagerly():
        return eager_context.global_seed() is not None
    return tf.compat.v1.get_default_graph().seed is not None


def _seed_graphs(entropy: RunEntropy) -> None:
    original = random_seed.get_seed

    @functools.wraps(original)
    def get_seed(op_seed: Any) -> Any:
        if op_seed is not None or _has_seed():
            return original(op_seed)
        if eager_context.executing_eagerly():
            return None, None
        # Deterministic operations refuse to draw without a seed.
        without = not is_op_determinism_enabled() or pipeline_draws.is_trying()
        if _tracing.in_pipeline and without:
            return None, None
        return tuple(1 + entropy.draw("tf.graph", bits=30) for _ in range(2))

    random_seed.get_seed = get_seed


def _seed(entropy: RunEntropy) -> Any | None:
    """That of the next draw where we are; None: it draws as TensorFlow has it."""
    if eager_context.executing_eagerly():
        return [entropy.draw("tf", bits=31) for _ in range(2)]
    return pipeline_draws.seed_of_sample()


def _replace(name: str, replacement: Any, entropy: RunEntropy) -> None:
    """Let the unseeded calls of an operation go to ``replacement``, eager ones and those
    for a sample of a pipeline."""
    original = getattr(gen_random_ops, name)

    @functools.wraps(original)
    def draw(*args: Any, seed: Any = 0, seed2: Any = 0, **kwargs: Any) -> Any:
        own = None if seed or seed2 else _seed(entropy)
        if own is None:
            return original(*args, seed=seed, seed2=seed2, **kwargs)
        return replacement(own, *args, **kwargs)

    setattr(gen_random_ops, name, draw)


def _begin_generators(entropy: RunEntropy) -> None:
    """``tf.random.Generator.from_non_deterministic_state``, and so the global one."""
    original = stateful_random_ops.non_deterministic_ints

    @functools.wraps(original)
    def ints(shape: Any, dtype: Any = tf.int64) -> Any:
        if not eager_context.executing_eagerly():
            return original(shape, dtype)
        seed = [entropy.draw("tf.Generator", bits=31) for _ in range(2)]
        return gen_stateless_random_ops.stateless_random_uniform_full_int(
            shape, seed, dtype=dtype
        )

    stateful_random_ops.non_deterministic_ints = ints
