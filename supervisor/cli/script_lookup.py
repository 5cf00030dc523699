"""The script that a person named: a file, or a module of the working directory (``-m``).

What cannot be a script is told in a sentence before anything starts.
"""

import difflib
import os
import re
import shutil
import sys
from pathlib import Path

from supervisor.cli.options import fail
from supervisor.host.process.child_process import TimeUpError, run_to_end
from supervisor.wire.files import open_regular

ELF = b"\x7fELF"
NOTEBOOK = ".ipynb"
SPEC = ".toml"
COMPILED = ".pyc"
SHELL = re.compile(rb"#![^\n]*\b(ba|da|z|k|c|tc|fi)?sh\b[^\n]*\n(?!''')")
"""The first line of a shell script. Where pip's own begin like that, ``'''exec'`` follows:
Python reads those, too."""
INTERPRETER = re.compile(r"python[0-9.]*")
STREAM = "-"
PIPE = "pipe:["
"""How /proc names those of ``<(command)``."""
ANSWERS = "trainwarden asks"
ANSWER_SECONDS = 60.0


def checked_directory(named: str | None) -> Path:
    """Where paths begin: the working directory that a spec names, or this one; ends the
    command where that is none."""
    base = Path.cwd() / (named or "")
    if not os.path.isdir(base):  # noqa: PTH112  # never raises
        fail(f"there is no directory {named}: working_directory has to name one")
    return base


def script_path(named: str, base: Path) -> Path:
    """The file that was ``named`` from ``base``, without links: it may not be there."""
    return Path(os.path.realpath(base / named))


def script_content(script: Path, named: str, base: Path) -> bytes:
    """What stands in it; ends the command if it is no script. ``named``: as it was
    given, from ``base``."""
    if script.suffix == NOTEBOOK and os.path.exists(script):  # noqa: PTH110  # never raises
        fail(
            f"{named} is a notebook: make a script of it, with "
            f"`jupyter nbconvert --to script {named}`, and run that"
        )
    if os.path.isdir(script):  # noqa: PTH112  # never raises
        inside = f"{named.rstrip('/')}/__main__.py"
        also = f", such as {inside}" if (script / "__main__.py").is_file() else ""
        fail(f"{named} is a directory: name the script in it{also}")
    try:
        with open_regular(script, links=True) as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        fail(_missing(script, named, base))
    except PermissionError:
        fail(f"cannot read the script {named}: Permission denied (chmod +r {named}?)")
    except OSError as error:
        fail(
            f"cannot read the script {named}: {error.strerror}; name a file with the "
            "script in it"
        )
    _check_content(content, script, named)
    return content


def _check_content(content: bytes, script: Path, named: str) -> None:
    if content.startswith(ELF) or b"\0" in content:
        source = (
            f"{script.stem}.py" if script.suffix == COMPILED else "such as train.py"
        )
        fail(
            f"{named} is no Python script: there are bytes in it that no text has; name "
            f"the source, {source}"
        )
    if script.suffix == SPEC:
        fail(f"{named} is no Python script: a spec is given with --spec {named}")
    if script.suffix == ".sh" or SHELL.match(content):
        fail(f"{named} is a shell script: name the Python script that it starts")


def _missing(script: Path, named: str, base: Path) -> str:
    """The sentence about a script that is not there, with what was meant."""
    if named == STREAM or script.name.startswith(PIPE):
        return (
            f"there is no script {named}: a stream can be read once, and a restart "
            "reads the script again; write it to a file, and name that"
        )
    if INTERPRETER.fullmatch(named):
        return (
            f"{named} is an interpreter, no script: leave it out, and name the script "
            "first; --python PATH names another interpreter"
        )
    if os.path.islink(base / named):  # noqa: PTH114  # never raises
        return f"{named} leads to {script}, which is not there"
    where = "" if named.startswith("/") else f" in {base}"
    try:
        beside = [one.name for one in script.parent.iterdir()]
    except OSError:
        beside = []
    close = difflib.get_close_matches(script.name, beside, n=1)
    hint = f": did you mean {Path(named).parent / close[0]}?" if close else ""
    return f"there is no script {named}{where}{hint}"


def module_file(module: str, base: Path) -> str:
    """The file of ``module``, from ``base``, as ``python -m`` finds it there; ends the
    command if there is none."""
    if "/" in module or module.endswith(".py"):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        fail(
            f"{module!r} is not the name of a module but of a file: leave -m out, or say "
            f"-m {dotted}"
        )
    if not all(part.isidentifier() for part in module.split(".")):
        fail(f"{module!r} is not the name of a module: expected one such as pkg.train")
    place = module.replace(".", "/")
    files = (f"{place}.py", f"{place}/__main__.py")
    roots = [base / root for root in ("", *_python_path())]
    found = next((r / f for r in roots for f in files if (r / f).is_file()), None)
    if found is None:
        fail(_no_module(module, base, roots, files))
    return str(found.relative_to(base) if found.is_relative_to(base) else found)


def _no_module(
    module: str, base: Path, roots: list[Path], files: tuple[str, ...]
) -> str:
    """The sentence about what cannot be run by -m."""
    package = Path(module.replace(".", "/"), "__init__.py")
    if any((root / package).is_file() for root in roots):
        return f"{module} is a package without a __main__.py: name a module of it"
    return (
        f"there is no module {module} in {base}: -m takes those of the working directory "
        f"and of PYTHONPATH ({' or '.join(files)})"
    )


def _python_path() -> list[str]:
    """Where Python looks first, beside the working directory."""
    return [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]


def checked_python(python: str, base: Path) -> None:
    """End the command if ``python`` is no Python that could be run."""
    place = base / python
    found = shutil.which(python if "/" not in python else str(place))
    if found is None:
        fail(_not_run(python, place))
    if not _answers(found):
        fail(
            f"{python} is no Python: name the one that has the script's packages, such "
            "as ~/venv/bin/python"
        )


def _not_run(python: str, place: Path) -> str:
    """The sentence about what is no program."""
    if os.path.isdir(place):  # noqa: PTH112  # never raises
        inside = Path("bin") / "python"
        there = os.access(place / inside, os.X_OK)
        way = f"did you mean {Path(python) / inside}?" if there else "name a program"
        return f"the interpreter {python} is a directory: {way}"
    if os.path.isfile(place):  # noqa: PTH113  # never raises
        why = f"it may not be executed (chmod +x {python}?)"
    else:
        why = "there is no such program; name the Python that has the script's packages"
    return f"cannot run the interpreter {python}: {why}"


def _answers(program: str) -> bool:
    """Whether it does what Python does: ``cat``, say, would end well and train nothing."""
    asked = [program, "-I", "-S", "-c", f"print({ANSWERS!r})"]
    try:
        return ANSWERS in run_to_end(asked, seconds=ANSWER_SECONDS).stdout
    except (OSError, TimeUpError):
        return False


def active_python() -> Path | None:
    """The interpreter of the virtual environment that is active; None: none is, or it is
    the one that we run in."""
    venv = os.environ.get("VIRTUAL_ENV")
    if not venv or Path(venv).resolve() == Path(sys.prefix).resolve():
        return None
    python = Path(venv) / "bin" / "python"
    return python if os.access(python, os.X_OK) else None
