"""Private names of Keras that do not depend on its backend: data adapters, epoch iterators.

Each is read here and nowhere else; ``tensorflow.fit_compat.NAMES`` lists where they are
checked before training starts.
"""

from typing import Any


def batches_known(iterator: Any) -> int | None:
    """Batches in a pass, as the epoch iterator knows them; None: not before its end."""
    return iterator._num_batches


def steps_seen(iterator: Any) -> int:
    """Steps that the epoch iterator has handed out in this pass."""
    return iterator._steps_seen


def peeked_batch(adapter: Any) -> Any:
    """The batch that the adapter of a generator drew to learn its shapes."""
    return adapter._first_batches[0]


def arrays_of(adapter: Any) -> Any:
    """The arrays, nested as the script gave them, that an array adapter slices."""
    return adapter._inputs


def standardized(adapter: Any, batch: Any) -> Any:
    """A batch of a ``PyDataset``, in the form in which its adapter hands it on."""
    return adapter._standardize_batch(batch)


def slicing_of(adapter: Any) -> tuple[int, int, Any]:
    """Of an array adapter: samples in all, samples in a batch, ``shuffle`` as given."""
    return adapter._num_samples, adapter._batch_size, adapter._shuffle
