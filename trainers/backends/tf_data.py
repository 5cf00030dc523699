"""``tf.data`` where it is there: a library for data, whatever trains on them.

A script on another backend need not have TensorFlow, and we do not import it: as long as
nobody has, no value is a pipeline. What is asked of one is asked of ``pipelines``.
"""

import sys
from collections.abc import Callable
from typing import Any

from trainers.process.script import isolation

_modules: dict[str, Any] = {}


def is_pipeline(value: Any) -> bool:
    """Whether ``value`` is one."""
    if not hasattr(sys.modules.get("tensorflow"), "data"):
        return False
    return bool(_of("data.pipelines").is_pipeline(value))


def is_iterator(value: Any) -> bool:
    """Whether ``value`` is one over a pipeline."""
    if not hasattr(sys.modules.get("tensorflow"), "data"):
        return False
    return bool(_of("data.pipelines").is_iterator(value))


def tensors_of(dataset: Any) -> list[Any]:
    """The tensors in memory that a pipeline's elements come from; none of what is none."""
    if not is_pipeline(dataset):
        return []
    found: list[Any] = _of("data.pipelines").tensors_of(dataset)
    return found


def is_infinite(dataset: Any) -> bool:
    """Whether the pipeline ``dataset`` is known to have no end."""
    return bool(_of("data.pipelines").is_infinite(dataset))


def why_not_exact(dataset: Any) -> str | None:
    """Why bits cannot be promised for a pipeline, in a sentence; None if they can."""
    found: str | None = _of("data.pipelines").why_not_exact(dataset)
    return found


def why_not_begun_anew(dataset: Any) -> str | None:
    """Why a pipeline that was iterated here does not yield the same again from its
    beginning, in half a sentence; None: it does."""
    found: str | None = _of("data.pipelines").why_not_begun_anew(dataset)
    return found


def endless_shuffles(dataset: Any) -> list[Any]:
    """The shuffles of a pipeline that are repeated without end."""
    found: list[Any] = _of("data.pipelines").endless_shuffles(dataset)
    return found


def in_order(dataset: Any) -> Any:
    """``dataset``, its elements in order where it is a pipeline."""
    return _of("data.pipelines").in_order(dataset) if is_pipeline(dataset) else dataset


def iterate(dataset: Any, strategy: Any | None, *, drawn: int = 0) -> Any:
    """An iterator after ``drawn`` steps, as ``pipelines.iterate``; of what is no pipeline
    its own, from the beginning."""
    if not is_pipeline(dataset):
        return iter(dataset)
    return _of("data.pipelines").iterate(dataset, strategy, drawn=drawn)


def blank(element_spec: Any, strategy: Any | None) -> Any:
    """A pipeline of one batch of zeros."""
    return _of("data.pipelines").blank(element_spec, strategy)


def glance(dataset: Any) -> None:
    """Draw one batch of a pipeline; nothing where it is none."""
    if is_pipeline(dataset):
        _of("data.pipelines").glance(dataset)


def replay(dataset: Any, *, made: int, used: int, drawn: int | None = None) -> None:
    """Put the shuffles of ``dataset`` where they are after it was iterated, as
    ``pipelines.replay``; nothing where it is no pipeline."""
    if is_pipeline(dataset):
        _of("data.pipelines").replay(dataset, made=made, used=used, drawn=drawn)


def a_batch(dataset: Any) -> Any | None:
    """The first batch of a pipeline; None where taking it would change its order."""
    return _of("data.pipelines").a_batch(dataset)


def batch_of(dataset: Any) -> int | None:
    """Samples in a whole batch of a pipeline; None where nobody knows beforehand."""
    found: int | None = _of("data.batch_sizes").batch_of(dataset)
    return found


def samples_of(dataset: Any) -> int | None:
    """Samples in one pass of a pipeline; None where unknown."""
    found: int | None = _of("data.batch_sizes").samples_of(dataset)
    return found


def telling(dataset: Any, tell: Callable[[int], None]) -> Any:
    """A pipeline whose batches call ``tell`` with their size as they are drawn."""
    return _of("data.batch_sizes").telling(dataset, tell)


def input_changes() -> Any:
    """The module by that name, of a process whose data are pipelines."""
    return _of("data.input_changes")


def pipeline_cache() -> Any:
    """The module by that name, of a process whose data are pipelines."""
    return _of("data.pipeline_cache")


def eager_state() -> Any | None:
    """The state of TensorFlow's eager operation seeds, where it is there and has any."""
    if not hasattr(sys.modules.get("tensorflow"), "data"):
        return None
    generator = _of("randomness.random_state").eager_random()
    return None if generator is None else generator.getstate()


def put_eager_state_back(state: Any) -> bool:
    """Give it back; whether it could be."""
    if state is None:
        return True
    if not hasattr(sys.modules.get("tensorflow"), "data"):
        return False
    generator = _of("randomness.random_state").eager_random()
    if generator is not None:
        generator.setstate(state)
    return generator is not None


def _of(module: str) -> Any:
    if module not in _modules:
        name = f"trainers.backends.tensorflow.{module}"
        _modules[module] = isolation.load(name)
    return _modules[module]
