"""The input file or the module that was not found, as an exception names it."""

import re
from collections.abc import Mapping

from supervisor.core.diagnosis.advice import MISSING_MODULE

_MISSING = (
    re.compile(r"FileNotFoundError: \[Errno 2\] [^:]*: (?P<quote>['\"])(?P<path>[^'\"]+)(?P=quote)$"),
    re.compile(r"FileNotFoundError: .*name = '(?P<path>[^']+)', errno = 2\b"),
    re.compile(r"\bNotFoundError: .*?(?<![\w/:.])(?P<path>/[^\s;:]+); No such file or directory"),
)  # fmt: skip
"""Of Python (OSError.__str__), of HDF5 (H5FDsec2.c) and of TensorFlow (posix_file_system.cc)."""
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


def missing_file(text: str) -> str | None:
    """The path that ``text`` says is not there; None: it names none."""
    found = (each.search(text) for each in _MISSING)
    return next((match["path"] for match in found if match is not None), None)


def missing_advice(path: str) -> str:
    """What to do about it."""
    place = "" if path.startswith("/") else " from the directory that the job runs in"
    return (
        f"'{path}' is not there: look for it{place}, on this machine and as the job's user. "
        "Correct the path in the script, have its storage mounted, or make its directory if "
        "the script was to write it; the same command goes on then."
    )


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
        f"The module '{name}' is not there in the Python that ran the script: is its name "
        f"written right? {install}, or "
        "name the Python that has it: --python PATH (in a spec: python). Is it a file of "
        "your own, it has to lie beside the script or in a directory of PYTHONPATH."
    )
