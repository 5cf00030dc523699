"""Where the command ``trainwarden`` begins.

PyPI's ``supervisor`` may have overwritten files of our package of the same name, so
nothing but the check for it is imported before the check.
"""

import os
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution

import supervisor

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
DAMAGED = (
    "files of trainwarden are missing, as after removing PyPI's 'supervisor' from the "
    "same environment: uninstall trainwarden and install it again"
)


def main() -> None:
    """Refuse to run beside PyPI's ``supervisor``; otherwise do what was asked."""
    _hold_standard_streams()
    conflict = conflicting_distribution(_installed("supervisor"))
    if conflict is None and not hasattr(supervisor, "__version__"):
        conflict = DAMAGED
    if conflict is not None:
        sys.stderr.write(f"trainwarden: {conflict}\n")
        raise SystemExit(EXIT_USAGE)
    try:
        main_of_commands = import_module("supervisor.cli.command_group").main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(EXIT_INTERRUPTED) from None
    main_of_commands()


def _hold_standard_streams() -> None:
    """Of descriptors 0 to 2 that are closed (``>&-``) the next file that is opened would
    get the number, and what is printed: the ledger, say."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one


def _installed(name: str) -> list[str]:
    """``name``, if a distribution of that name is installed."""
    try:
        return [distribution(name).name]
    except PackageNotFoundError:
        return []


def conflicting_distribution(names: Iterable[str]) -> str | None:
    """What to do about another ``supervisor`` among the installed distributions.

    ``names`` are distribution names as ``importlib.metadata`` gives them; None where
    all is well. Both distributions install a package ``supervisor``: whichever came
    last has overwritten files of the other, and removing one takes files of both.
    """
    normalised = {re.sub(r"[-_.]+", "-", name).lower() for name in names if name}
    if "supervisor" not in normalised:
        return None
    return (
        "the distribution 'supervisor' is installed in this environment and has the "
        "same top-level package as trainwarden: use a virtual environment of its own "
        "for trainwarden, or uninstall both and then install trainwarden again"
    )
