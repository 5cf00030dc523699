"""Run one row's script: ``row.py NAME``."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import data_rows
import fit_rows

if __name__ == "__main__":
    name = sys.argv[1]
    getattr(data_rows, name, None) or getattr(fit_rows, name)
    (getattr(data_rows, name, None) or getattr(fit_rows, name))()
