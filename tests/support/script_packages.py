"""Packages that some scripts import, kept apart from those that all tests start with.

Keras imports scikit-learn, pandas and matplotlib as soon as it finds them, which is 40 %
of its start; ``make`` installs them into a directory of their own (pyproject.toml).
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

SCRIPT_PACKAGES = Path(sys.prefix) / "script-packages"


def script_package(name: str) -> Any:
    """A module of theirs; what is installed beside them comes first."""
    if str(SCRIPT_PACKAGES) not in sys.path:
        sys.path.append(str(SCRIPT_PACKAGES))
    return import_module(name)
