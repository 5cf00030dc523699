"""Tensors, parameters and generators of PyTorch, saved and given back."""

import os
import subprocess
import sys

import pytest

from tests.support.zygote import TORCH

pytestmark = pytest.mark.skipif(
    not TORCH.is_dir(),
    reason="make .venv/torch-backend installs PyTorch; it is not here",
)

BEGINNING = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from trainers.backends.torch import torch_fit, torch_hidden, torch_values, torch_variables

def given_back(value, existing=None):
    array, kind = torch_values.framework_array(value), torch_values.kind_of(value)
    return torch_values.framework_value(existing, np.array(array), kind)
"""
EVERY_KIND = (
    BEGINNING
    + """
for dtype in (torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool):
    value = torch.arange(6).reshape(2, 3).to(dtype)
    found = given_back(value)
    assert found.dtype == dtype and torch.equal(found.float(), value.float())
    assert torch_values.dtype_of(value) == torch_values.framework_array(value).dtype.name
assert torch_values.framework_array("a text") is None

frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
for one in (frozen, torch.nn.Parameter(torch.ones(2))):
    found = given_back(one)
    assert type(found) is torch.nn.Parameter and found.requires_grad == one.requires_grad

generator = torch.Generator().manual_seed(3)
torch.rand(2, generator=generator)
found = given_back(generator)
assert torch.equal(torch.rand(3, generator=found), torch.rand(3, generator=generator))

variable = keras.Variable(np.ones(3, "float32"))
taken = torch_values.values_of([variable])
variable.assign([2.0, 2.0, 2.0])
assert torch_values.array_of_value(taken[0]).tolist() == [1, 1, 1]
inner = variable.value
torch_values.assign(variable, np.zeros(3, "float32"))
assert variable.value is inner and inner.tolist() == [0, 0, 0]
"""
)
IN_PLACE = (
    BEGINNING
    + """
counted = torch.zeros(2)
counted += 1
there = torch.zeros(2)
assert given_back(counted, there) is there and there.tolist() == [1, 1]

constant = torch.zeros(2)
found = given_back(torch.ones(2) * 3, constant)
assert found is not constant and constant.tolist() == [0, 0] and found.tolist() == [3, 3]

mark = torch_hidden.mark(there)
assert torch_hidden.same_mark(mark, torch_hidden.mark(there))
there.data[0] = 7
assert not torch_hidden.same_mark(mark, torch_hidden.mark(there))
"""
)
OF_A_MODEL = (
    BEGINNING
    + """
wrap = keras.layers.TorchModuleWrapper
model = keras.Sequential([
    keras.Input((4,)),
    wrap(torch.nn.Linear(4, 4), output_shape=(None, 4)),
    wrap(torch.nn.BatchNorm1d(4), output_shape=(None, 4)),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.optimizer.build(model.trainable_variables)
kinds = [kind for kind, _ in torch_variables.listed(model)]
assert kinds.count("buffer") == 3
inner = [id(torch_values.tensor_of(one)) for _, one in torch_variables.listed(model)]
assert len(inner) == len(set(inner))
names = [name for name, _ in torch_variables.variables(model)]
assert len(names) == len(kinds) == len(set(names))

class Adds(keras.Model):
    def train_step(self, data):
        self.compute_loss(*data).backward()

class Forgets(Adds):
    def train_step(self, data):
        self.zero_grad()
        self.compute_loss(*data).backward()

for kind, wrong in ((Adds, True), (Forgets, False), (keras.Model, False)):
    one = kind()
    one.compile("sgd", "mse")
    assert bool(torch_fit.why_step_not_exact(one, alike=False)) is wrong
assert torch_fit.self_test() == []
"""
)


@pytest.mark.parametrize("script", [EVERY_KIND, IN_PLACE, OF_A_MODEL])
def test_what_is_given_back_is_what_it_was(script: str) -> None:
    """Each kind of value; in place where it is changed so; all of a model, once."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.fspath(TORCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
