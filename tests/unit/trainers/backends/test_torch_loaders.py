"""Loaders of PyTorch: what is promised of them, and a pass that is taken up."""

import os
import subprocess
import sys

import pytest

from tests.support.zygote import TORCH

installed = pytest.mark.skipif(
    not TORCH.is_dir(),
    reason="make .venv/torch-backend installs PyTorch; it is not here",
)

WITHOUT = """
import sys
from trainers.backends import torch_loaders

assert not torch_loaders.is_loader([1])
assert torch_loaders.states(([1], None)) == []
assert torch_loaders.parts([1], "data") == []
assert not any(name.partition(".")[0] == "torch" for name in sys.modules)
"""
BEGINNING = """
import torch
from torch.utils.data import (
    BatchSampler, DataLoader, IterableDataset, RandomSampler, Subset, TensorDataset,
)
from trainers.backends import torch_loaders

rows = TensorDataset(torch.arange(10))
"""
WHY_NOT = (
    BEGINNING
    + """
class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(10))

class Own(DataLoader):
    pass

class Order:
    def __iter__(self):
        return iter(range(10))
    def __len__(self):
        return 10

def why(loader):
    assert torch_loaders.is_loader(loader)
    return torch_loaders.why_not_exact(loader)

assert why(DataLoader(rows, shuffle=True)) is None
assert why(DataLoader(rows, shuffle=True, num_workers=2)) is None
assert why(DataLoader(rows, batch_sampler=BatchSampler(RandomSampler(rows), 3, True))) is None
assert why(DataLoader(rows, batch_sampler=[[1, 2], [3]])) is None
assert "Endless" in why(DataLoader(Endless()))
assert "Own" in why(Own(rows))
assert "Order" in why(DataLoader(rows, sampler=Order()))
assert "persistent" in why(DataLoader(rows, num_workers=1, persistent_workers=True))
assert "any order" in why(DataLoader(rows, num_workers=1, in_order=False))
assert torch_loaders.samples_of(DataLoader(rows, batch_size=4)) == 10
assert torch_loaders.samples_of(DataLoader(rows, batch_size=4, drop_last=True)) == 8
assert torch_loaders.samples_of(DataLoader(Endless())) is None
inner = Subset(rows, [1, 2])
reached = [one for _, one in torch_loaders.parts(DataLoader(inner), "data")]
assert any(one is rows for one in reached) and any(one is inner for one in reached)
"""
)
TAKEN_UP = (
    BEGINNING
    + """
def batches(loader):
    return [tuple(batch[0].tolist()) for batch in loader]

for workers in (0, 1):
    own = torch.Generator().manual_seed(5)
    loader = DataLoader(rows, 3, shuffle=True, generator=own, num_workers=workers)
    batches(loader)
    kept = torch_loaders.states((loader, None))
    assert len(kept) == 1
    whole = batches(loader)
    torch_loaders.put_back((loader, None), kept)
    again = iter(loader)
    torch_loaders.pass_over(loader, again, 2)
    assert batches(again) == whole[2:] != []
"""
)


def _run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.fspath(TORCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_nothing_imports_pytorch() -> None:
    """Where nobody has, no value is a loader."""
    _run(WITHOUT)


@installed
def test_what_cannot_be_the_same_twice_is_told() -> None:
    """By loader, data set, sampler and workers."""
    _run(WHY_NOT)


@installed
def test_a_pass_is_taken_up_where_it_was() -> None:
    """With the generators as they stood when it began, by workers too."""
    _run(TAKEN_UP)
