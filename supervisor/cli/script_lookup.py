"""The script that a person named: a file, or a module of the working directory (``-m``).

What cannot be a script is told in a sentence before anything starts.
"""

import os
import shutil
import sys
from pathlib import Path

from supervisor.cli.options import fail

ELF = b"\x7fELF"
NOTEBOOK = ".ipynb"


def script_content(script: Path, named: str) -> bytes:
    """What stands in it; ends the command if it is no script. ``named``: as it was
    given."""
    if script.is_dir():
        inside = f"{named.rstrip('/')}/__main__.py"
        also = f", such as {inside}" if (script / "__main__.py").is_file() else ""
        fail(f"{named} is a directory: name the script in it{also}")
    if script.suffix == NOTEBOOK:
        fail(
            f"{named} is a notebook: make a script of it, with "
            f"`jupyter nbconvert --to script {named}`, and run that"
        )
    try:
        content = script.read_bytes()
    except OSError as error:
        fail(f"cannot read the script {named}: {error.strerror}")
    if content.startswith(ELF) or b"\0" in content:
        fail(f"{named} is no Python script: there are bytes in it that no text has")
    return content


def module_file(module: str, base: Path) -> str:
    """The file of ``module``, from ``base``, as ``python -m`` finds it there; ends the
    command if there is none."""
    if not all(part.isidentifier() for part in module.split(".")):
        fail(f"{module!r} is not the name of a module: expected one such as pkg.train")
    place = module.replace(".", "/")
    files = (f"{place}.py", f"{place}/__main__.py")
    found = next((file for file in files if (base / file).is_file()), None)
    if found is None:
        fail(
            f"there is no module {module} in {base}: -m takes those of the working "
            f"directory ({' or '.join(files)})"
        )
    return found


def checked_python(python: str, base: Path) -> None:
    """End the command if ``python`` is no program that could be run."""
    found = shutil.which(python if "/" not in python else str(base / python))
    if found is None or not os.access(found, os.X_OK):
        fail(f"cannot run the interpreter {python}: there is no such program")


def active_python() -> Path | None:
    """The interpreter of the virtual environment that is active; None: none is, or it is
    the one that we run in."""
    venv = os.environ.get("VIRTUAL_ENV")
    if not venv or Path(venv).resolve() == Path(sys.prefix).resolve():
        return None
    python = Path(venv) / "bin" / "python"
    return python if os.access(python, os.X_OK) else None
