"""Run one row's script: ``row.py NAME``."""

import importlib.util
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def look():
    """As transformers and datasets find out what there is."""
    for _ in range(2):
        assert importlib.util.find_spec("tensorflow") and importlib.util.find_spec(
            "keras"
        )


def lazy():
    """TensorFlow is loaded when somebody first looks into it."""
    look()
    spec = importlib.util.find_spec("tensorflow")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tensorflow"] = module
    spec.loader.exec_module(module)


BEFORE = {"look": look, "lazy": lazy}
if "BEFORE" in os.environ:
    assert "tensorflow" not in sys.modules
    BEFORE[os.environ["BEFORE"]]()

import replica_rows

replica_rows.divide(sys.argv[1])

import callback_rows
import data_rows
import entropy_rows
import file_rows
import fit_rows
import followed_rows
import hidden_rows
import jax_rows
import loop_rows
import model_rows
import ordinary_rows
import python_rows
import torch_rows

KINDS = (
    callback_rows,
    data_rows,
    entropy_rows,
    file_rows,
    fit_rows,
    followed_rows,
    hidden_rows,
    jax_rows,
    loop_rows,
    model_rows,
    ordinary_rows,
    python_rows,
    replica_rows,
    torch_rows,
)


def row(name):
    """The function of that name, by whichever kind of row defines it."""
    found = (vars(kind).get(name) for kind in KINDS)
    return next(one for one in found if callable(one))


if __name__ == "__main__":
    row(sys.argv[1])()
