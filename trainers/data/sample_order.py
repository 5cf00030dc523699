"""The order in which the samples of a pass come, where it is ours to choose.

**Arrays.** A script that set a global seed gets exactly the order it gets without
supervision: Keras then draws one permutation and repeats it in every epoch. (So a
supervised run of a seeded script equals an unsupervised one bit for bit.) Without a seed
Keras draws a new permutation each epoch that nobody can draw again; ours are new each
epoch as well, from the job's own seed, the call of ``fit`` and how often the data were
begun. Seeding the script globally instead would freeze its reshuffling.

**PyDataset.** Its batches, with or without a seed: Keras draws their order from Python's
global generator, which others draw from as well.
"""

from typing import Any

import numpy as np

from trainers.backends import keras_compat
from trainers.backends.selected import backend


def permutation(n: int, *, seed: int, fit: int, begun: int) -> np.ndarray:
    """The order (n,) int64 of samples; one for each way in which they differ."""
    generator = np.random.Generator(np.random.PCG64([seed, fit, begun]))
    return generator.permutation(n)


def within_batches(mixed: np.ndarray, *, batch: int) -> np.ndarray:
    """An order (n,) int64 whose batches come in turn, each mixed as its part of ``mixed``.

    ``mixed`` (n,) is a permutation; ``batch`` the samples of a batch.
    """
    order = np.arange(len(mixed))
    for start in range(0, len(mixed), batch):
        part = order[start : start + batch]
        part[:] = start + np.argsort(mixed[start : start + batch])
    return order


def repeated_by_keras(n: int, *, batch: int, shuffle: Any) -> np.ndarray | None:
    """The order (n,) that Keras repeats in each epoch of a seeded script; None without.

    ``shuffle`` is that of ``fit``.
    """
    if backend.random.global_seed() is None:
        return None
    # A permutation of all does not depend on the batch; shuffled batches do.
    indices = keras_compat.ArrayDataAdapter(
        np.arange(n), batch_size=batch if shuffle == "batch" else n, shuffle=shuffle
    )
    batches = [keras_compat.tree.flatten(b)[0] for b in indices.get_tf_dataset()]
    return np.concatenate([batch.numpy() for batch in batches])
