"""Whether a module is an installed package's, and not one of the script's own."""

import functools
import os
import sys
import sysconfig
from pathlib import Path

INSTALLED = ("/site-packages/", "/dist-packages/")
"""Directories of what is installed, also in a virtual environment beside the script."""
_STANDARD = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib")
)


def is_installed(file: str) -> bool:
    """Whether ``file`` lies where the standard library does, or where packages were
    installed: also by ``pip install --target`` into any directory on the path."""
    return (
        file.startswith(_STANDARD)
        or any(name in file for name in INSTALLED)
        or _lies_among_packages(str(Path(file).parent))
    )


@functools.cache
def _lies_among_packages(directory: str) -> bool:
    place = Path(directory).resolve()
    libraries = [Path(one).resolve() / "lib" for one in (sys.prefix, sys.base_prefix)]
    return any(place.is_relative_to(one) for one in libraries) or any(
        _was_installed_into(one) for one in (place, *place.parents)
    )


@functools.cache
def _was_installed_into(directory: Path) -> bool:
    """Only directories on the path are looked into: others may be large."""
    on_path = any(Path(one).resolve() == directory for one in sys.path)
    return on_path and any(directory.glob("*.dist-info"))
