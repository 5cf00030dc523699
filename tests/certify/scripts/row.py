"""Run one row's script: ``row.py NAME``."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import callback_rows
import data_rows
import fit_rows
import loop_rows
import model_rows
import python_rows

KINDS = (callback_rows, data_rows, fit_rows, loop_rows, model_rows, python_rows)


def row(name):
    """The function of that name, by whichever kind of row has it."""
    return next(getattr(kind, name) for kind in KINDS if hasattr(kind, name))


if __name__ == "__main__":
    row(sys.argv[1])()
