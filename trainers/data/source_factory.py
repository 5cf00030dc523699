"""The data source of a ``fit``, by the kind of its data.

What each kind costs to take up in the middle, and what it promises:

| kind | order | to continue |
| --- | --- | --- |
| arrays | ours | O(1): the rest of the permutation |
| ``PyDataset`` | ours | O(1): the rest of the indices |
| ``tf.data`` | its own: iterated as often as before | reads what comes before, once |
| generator | its own: replayed from its start | runs it up to the position |
| loader (Grain, PyTorch) | its own: iterated anew each epoch | reads what comes before, once |

Which order "ours" is: ``sample_order``.
"""

from typing import Any

from trainers.backends import keras_compat
from trainers.data.array_source import ArraySource
from trainers.data.data_source import DataSource, GeneratorSource, LoaderSource
from trainers.data.py_dataset_source import PyDatasetSource


def source_of(iterator: Any, *, seed: int, fit: int) -> DataSource:
    """The source for a training iterator, by its data adapter."""
    adapter = iterator.data_adapter
    if type(adapter) is keras_compat.ArrayDataAdapter:
        return ArraySource(iterator, seed=seed, fit=fit)
    finite = getattr(getattr(adapter, "py_dataset", None), "num_batches", None)
    if isinstance(adapter, keras_compat.PyDatasetAdapter) and finite is not None:
        return PyDatasetSource(iterator, seed=seed, fit=fit)
    if isinstance(adapter, keras_compat.TFDatasetAdapter):
        return DataSource(iterator)
    if isinstance(
        adapter, (keras_compat.GeneratorDataAdapter, keras_compat.PyDatasetAdapter)
    ):
        return GeneratorSource(iterator)
    return LoaderSource(iterator)
