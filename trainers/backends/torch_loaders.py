"""Loaders of PyTorch (``torch.utils.data.DataLoader``), whatever trains on their batches.

PyTorch is not imported here: as long as nobody has, no value is a loader. The private
names that this leans on stand in the table of ``torch.torch_fit``.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

OWN_LOADER = "a class of its own ({}) hands them out"
ITERABLE = "its data set ({}) is iterated, not asked by index"
OWN_SAMPLER = "their order comes from a sampler of the script's own ({})"
PERSISTENT = "its workers are persistent: they go on drawing from epoch to epoch"
ANY_ORDER = "its workers hand out batches in any order (in_order=False)"
SAMPLERS = (
    "SequentialSampler", "RandomSampler", "SubsetRandomSampler",
    "WeightedRandomSampler", "BatchSampler",
)  # fmt: skip
"""Samplers of PyTorch's that draw all at their beginning, and keep nothing else."""


def _data() -> Any | None:
    """``torch.utils.data``, where somebody has imported it."""
    return sys.modules.get("torch.utils.data")


def is_loader(value: Any) -> bool:
    """Whether ``value`` is one."""
    kind = getattr(_data(), "DataLoader", None)
    return kind is not None and isinstance(value, kind)


def is_iterated(loader: Any) -> bool:
    """Whether its data set has no indices."""
    data: Any = _data()
    return isinstance(loader.dataset, data.IterableDataset)


def why_not_exact(loader: Any) -> str | None:
    """Why it need not hand out the same batches in a pass that is done again."""
    data: Any = _data()
    if type(loader) is not data.DataLoader:
        return OWN_LOADER.format(type(loader).__name__)
    if is_iterated(loader):
        return ITERABLE.format(type(loader.dataset).__name__)
    for sampler in _samplers(loader):
        kind = type(sampler)
        if kind.__name__ not in SAMPLERS or not kind.__module__.startswith("torch."):
            return OWN_SAMPLER.format(kind.__name__)
    if loader.num_workers and loader.persistent_workers:
        return PERSISTENT
    if loader.num_workers and not getattr(loader, "in_order", True):
        return ANY_ORDER
    return None


def _samplers(loader: Any) -> Iterator[Any]:
    """Its samplers, those within others too."""
    waiting = [loader.batch_sampler, loader.sampler]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, (list, tuple, range)) or one is None:
            continue  # plain indices
        yield one
        if (within := getattr(one, "sampler", None)) is not None:
            waiting.append(within)


def samples_of(loader: Any) -> int | None:
    """Samples in one pass; None where nobody knows."""
    if is_iterated(loader):
        return None
    batch = loader.batch_size
    if batch is None or not hasattr(loader.sampler, "__len__"):
        return None
    count = len(loader.sampler)
    return count - count % batch if loader.drop_last else count


def pass_over(loader: Any, batches: Iterator[Any], drawn: int) -> None:
    """Leave out the first ``drawn`` batches of a pass of ``loader``; they are read only
    where workers read ahead or the data have no indices."""
    if loader.num_workers or is_iterated(loader):
        deque(islice(batches, drawn), maxlen=0)
        return
    for _ in range(drawn):
        batches._next_index()  # type: ignore[attr-defined]  # of PyTorch's iterators


# --- State -----------------------------------------------------------------------


def _generators(loader: Any) -> list[Any]:
    """Random generators that it draws from, once each."""
    owners = (loader, *_samplers(loader))
    found = (getattr(one, "generator", None) for one in owners)
    return list({id(one): one for one in found if one is not None}.values())


def states(given: Iterable[Any]) -> list[np.ndarray]:
    """Those of the generators of all loaders among ``given``."""
    loaders = (one for one in given if is_loader(one))
    return [
        np.array(generator.get_state().numpy())
        for loader in loaders
        for generator in _generators(loader)
    ]


def put_back(given: Iterable[Any], kept: list[np.ndarray]) -> None:
    """Give them back, as many as there are."""
    loaders = (one for one in given if is_loader(one))
    generators = [one for loader in loaders for one in _generators(loader)]
    for generator, state in zip(generators, kept, strict=False):
        generator.set_state(sys.modules["torch"].from_numpy(np.array(state)))


def parts(loader: Any, path: str) -> list[tuple[str, Any]]:
    """What of the script's own a loader calls, by ``path`` of it: its data sets, functions."""
    if not is_loader(loader):
        return []
    found = [(f"{path}.collate_fn", loader.collate_fn)]
    found += [(f"{path}.sampler", one) for one in _samplers(loader)]
    waiting = [loader.dataset]
    while waiting:
        one = waiting.pop(0)
        found.append((f"{path}.dataset {len(found)}", one))
        within = [getattr(one, "dataset", None), *(getattr(one, "datasets", ()) or ())]
        waiting += [inner for inner in within if inner is not None]
    return found
