"""Where the command ``trainwarden`` begins.

PyPI's ``supervisor`` may have overwritten files of our package of the same name, so
nothing but the check for it is imported before the check.
"""

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution

import supervisor
from supervisor.cli.package_collision import conflicting_distribution

EXIT_USAGE = 2
DAMAGED = (
    "files of trainwarden are missing, as after removing PyPI's 'supervisor' from the "
    "same environment: uninstall trainwarden and install it again"
)


def main() -> None:
    """Refuse to run beside PyPI's ``supervisor``; otherwise do what was asked."""
    conflict = conflicting_distribution(_installed("supervisor"))
    if conflict is None and not hasattr(supervisor, "__version__"):
        conflict = DAMAGED
    if conflict is not None:
        sys.stderr.write(f"trainwarden: {conflict}\n")
        raise SystemExit(EXIT_USAGE)
    import_module("supervisor.cli.command_group").main()


def _installed(name: str) -> list[str]:
    """``name``, if a distribution of that name is installed."""
    try:
        return [distribution(name).name]
    except PackageNotFoundError:
        return []
