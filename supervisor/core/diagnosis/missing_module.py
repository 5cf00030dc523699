"""The module that an import did not find, as Python names it, and where it may come from."""

import re
from collections.abc import Mapping

from supervisor.core.diagnosis.advice import MISSING_MODULE

_NOT_FOUND = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
"""cpython: Lib/importlib/_bootstrap.py (_ERR_MSG_PREFIX)."""
DISTRIBUTIONS: Mapping[str, str] = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "git": "GitPython",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
"""Modules whose package has another name on PyPI (each says so on its page there)."""


def missing_module(text: str) -> str | None:
    """The module that ``text`` says is not there; None: it names none."""
    found = _NOT_FOUND.search(text)
    return None if found is None else found["name"]


def module_advice(name: str | None) -> str:
    """What to do about it; None: it has no name."""
    if name is None:
        return MISSING_MODULE
    top, _, below = name.partition(".")
    package = DISTRIBUTIONS.get(top, top)
    install = f"Install it there (`pip install {package}`)"
    if below:  # the package may be there, in a version without it
        install = (
            f"Install a version of '{top}' there that has it (`pip install {package}`)"
        )
    return (
        f"The module '{name}' is not there in the Python that ran the script. {install}, or "
        "name the Python that has it: --python PATH (in a spec: python). Is it a file of "
        "your own, it has to lie beside the script or in a directory of PYTHONPATH."
    )
