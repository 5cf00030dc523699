"""Former file of the shim: a supervisor that was started before starts attempts by it.

It runs on when a new version is installed over it, a run in a terminal to its end. Of no
more use when none of those is left; until then attempts could not be started without.
"""
# ruff: noqa: PTH100, PTH118, PTH120  # as in the shim

import os
import sys

if __name__ == "__main__":
    place = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "launch", "attempt_shim.py"
    )
    command = [sys.executable, "-I", "-S", place, *sys.argv[1:]]
    os.execv(sys.executable, command)  # noqa: S606  # no shell is wanted
