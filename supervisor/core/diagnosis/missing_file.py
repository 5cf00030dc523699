"""The input file that is not there, as an exception names it."""

import re
from collections.abc import Iterable

_MISSING = (
    re.compile(r"FileNotFoundError: \[Errno 2\] [^:]*: (?P<quote>['\"])(?P<path>.+)(?P=quote)"),
    re.compile(r"FileNotFoundError: .*name = '(?P<path>[^']+)', errno = 2\b"),
    re.compile(r"NotFoundError: .*?(?P<path>/[^\s;:]+)[;:] No such file or directory"),
)  # fmt: skip
"""Of Python (OSError.__str__), of HDF5 (H5FDsec2.c) and of TensorFlow (posix_file_system.cc)."""


def missing_file(texts: Iterable[str]) -> str | None:
    """The first path that ``texts`` say is not there; None: none is named."""
    found = (each.search(text) for text in texts for each in _MISSING)
    return next((match["path"] for match in found if match is not None), None)


def missing_advice(path: str) -> str:
    """What to do about it."""
    place = "" if path.startswith("/") else " from the directory that the job runs in"
    return (
        f"{path} is not there: look for it{place}, on this machine and as the job's user. "
        "Correct the path in the script, or have its storage mounted; the same command "
        "goes on then."
    )
