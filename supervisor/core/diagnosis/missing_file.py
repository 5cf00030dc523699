"""The input file that is not there, as an exception names it."""

import re

_MISSING = (
    re.compile(r"FileNotFoundError: \[Errno 2\] [^:]*: (?P<quote>['\"])(?P<path>[^'\"]+)(?P=quote)$"),
    re.compile(r"FileNotFoundError: .*name = '(?P<path>[^']+)', errno = 2\b"),
    re.compile(r"\bNotFoundError: .*?(?<![\w/:.])(?P<path>/[^\s;:]+); No such file or directory"),
)  # fmt: skip
"""Of Python (OSError.__str__), of HDF5 (H5FDsec2.c) and of TensorFlow (posix_file_system.cc)."""


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
