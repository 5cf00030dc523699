"""The watch for a script of which no step is seen: once an attempt, that is told.

A loop in plain Python or NumPy looks from here like a script that has not begun to train.
"""

import sys
import time
from collections.abc import Callable, Mapping
from types import ModuleType

from trainers.process.environment.module_state import is_initializing

FRAMEWORKS = ("tensorflow", "keras", "jax", "torch")
UNSEEN_SECONDS = 60.0
"""A script that reads its data and builds its model has most often begun to train by then,
and one that is over by then has little to lose."""


def is_importing(modules: Mapping[str, ModuleType]) -> bool:
    """Whether a framework among ``modules`` is being imported now."""
    return any(is_initializing(modules.get(name)) for name in FRAMEWORKS)


class UnseenSteps:
    """Looks at each heartbeat; whoever reads its page while it starts says the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._over = False

    def tells(self, *, starting: bool) -> bool:
        """Whether to tell now that no step is seen. ``starting``: the script has called no
        ``fit``, and made no step of its own that is seen."""
        if self._over or not starting:
            self._over = True
            return False
        if is_importing(sys.modules):
            self._since = self._clock()
        self._over = self._clock() - self._since >= UNSEEN_SECONDS
        return self._over
