"""PyPI's ``supervisor`` in the same environment: the same top-level package."""

import re
from collections.abc import Iterable


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
