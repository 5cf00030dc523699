"""Run a training script under supervision: ``PYTHON .../launch.py DIRECTIVE.json``.

This file is run by the job's own interpreter, whose environment need not contain us.
It makes exactly two packages importable, ``supervisor`` (for ``supervisor.wire``) and
``trainers``, without putting the directory they lie in on ``sys.path``: what else lies
there is none of the script's business.
"""

import sys

# Python put our own directory first: a module of ours must never shadow one of the
# standard library or of the script. (The script's directory takes its place later.)
if __name__ == "__main__":
    sys.path.pop(0)

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The directory that holds our packages."""

PACKAGES = ("supervisor", "trainers")


def expose(root: Path) -> None:
    """Make the packages below ``root`` importable by name, and nothing else there."""
    for name in PACKAGES:
        directory = root / name
        spec = importlib.util.spec_from_file_location(
            name,
            directory / "__init__.py",
            submodule_search_locations=[str(directory)],
        )
        if spec is None or spec.loader is None:
            message = f"no package {name} in {root}"
            raise ImportError(message)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


def main() -> int:
    """Run the script that the directive names; returns the exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036  # the job's interpreter, not ours
        sys.stderr.write("trainwarden: training needs Python 3.11 or newer\n")
        return 78
    expose(ROOT)
    from trainers.process import training_process  # noqa: PLC0415  # importable only from here on

    return training_process.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
