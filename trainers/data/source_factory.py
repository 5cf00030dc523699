"""The data source of a ``fit``, by the kind of its data.

What each kind costs to take up in the middle, and what it promises:

| kind | order | to continue |
| --- | --- | --- |
| arrays | ours | O(1): the rest of the permutation |
| ``PyDataset`` | ours | O(1): the rest of the indices |
| ``tf.data`` | its own: iterated as often as before | reads what comes before, once |
| generator | its own: replayed from its start | runs it up to the position |
| loader (Grain, PyTorch) | its own: iterated anew each epoch | reads what comes before, once |

On PyTorch arrays and its ``DataLoader`` come in the order that its generators draw, which
are put where they were: ``torch_source``.

Which order "ours" is: ``sample_order``.
"""

from typing import Any

from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data import direct_source, torch_source
from trainers.data.data_source import DataSource, GeneratorSource, LoaderSource
from trainers.data.py_dataset_source import PyDatasetSource


def source_of(iterator: Any, *, seed: int, fit: int) -> DataSource:
    """The source for a training iterator, by its data adapter."""
    if backend.fit.TAKES_ARRAYS:
        return _direct(iterator, seed=seed, fit=fit)
    adapter = iterator.data_adapter
    if type(adapter) is keras_compat.ArrayDataAdapter:
        # Not before: it is made of TensorFlow's operations.
        from trainers.data.array_source import ArraySource  # noqa: PLC0415

        return ArraySource(iterator, seed=seed, fit=fit)
    if _is_finite(adapter):
        return PyDatasetSource(iterator, seed=seed, fit=fit)
    if isinstance(adapter, keras_compat.TFDatasetAdapter):
        return DataSource(iterator)
    return GeneratorSource(iterator) if _generates(adapter) else LoaderSource(iterator)


def _direct(iterator: Any, *, seed: int, fit: int) -> DataSource:
    adapter = iterator.data_adapter
    loaded = _loaded(iterator) if backend.fit.LOADS else None
    if loaded is not None:
        return loaded
    if type(adapter) is keras_compat.ArrayDataAdapter:
        return direct_source.DirectArraySource(iterator)
    if _is_finite(adapter):
        return direct_source.DirectPyDatasetSource(iterator, seed=seed, fit=fit)
    if isinstance(adapter, keras_compat.TFDatasetAdapter):
        return direct_source.DirectPipelineSource(iterator)
    if _generates(adapter):
        return direct_source.DirectGeneratorSource(iterator)
    return direct_source.DirectLoaderSource(iterator)


def _loaded(iterator: Any) -> DataSource | None:
    adapter = iterator.data_adapter
    if type(adapter) is keras_compat.ArrayDataAdapter:
        return torch_source.TorchArraySource(iterator)
    if isinstance(adapter, keras_compat.TorchDataLoaderAdapter):
        return torch_source.TorchLoaderSource(iterator)
    return None


def _is_finite(adapter: Any) -> bool:
    """Whether it is that of a ``PyDataset`` with an end."""
    finite = getattr(getattr(adapter, "py_dataset", None), "num_batches", None)
    return isinstance(adapter, keras_compat.PyDatasetAdapter) and finite is not None


def _generates(adapter: Any) -> bool:
    kinds = (keras_compat.GeneratorDataAdapter, keras_compat.PyDatasetAdapter)
    return isinstance(adapter, kinds)
