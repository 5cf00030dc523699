"""The variables of a model on JAX, and where the loop keeps their values.

Within an epoch that is a tuple of arrays, which each step takes and returns; the variables
themselves hold nothing then. The private names stand in the table of ``jax_fit``.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from trainers.backends.jax.jax_values import KerasVariable
from trainers.backends.model_listing import Listing

GROUPS = (
    "trainable_variables", "non_trainable_variables", "optimizer_variables",
    "metrics_variables",
)  # fmt: skip
"""Keys of the loop's state."""


_listing = Listing((KerasVariable,), raw=lambda value: value, identity=id)
listed = _listing.listed
variables = _listing.variables


def _of_loop(model: Any) -> list[tuple[Any, Any]]:
    """The variables whose values the loop keeps now, with them."""
    state = getattr(model, "_jax_state", None)
    if not state or getattr(model, "_jax_state_synced", True):
        return []
    members = {
        "trainable_variables": model.trainable_variables,
        "non_trainable_variables": model.non_trainable_variables,
        "metrics_variables": model.metrics_variables,
    }
    if "optimizer_variables" in state:
        members["optimizer_variables"] = model.optimizer.variables
    return [
        pair
        for group in GROUPS
        for pair in zip(members.get(group, ()), state.get(group) or (), strict=False)
    ]


@contextlib.contextmanager
def in_place(model: Any) -> Iterator[None]:
    """Within, the variables have their values between two steps, too; afterwards all is
    as it was: what a callback finds in them does not depend on our snapshots."""
    kept = [(variable, variable._value, value) for variable, value in _of_loop(model)]
    for variable, _, value in kept:
        variable._value = value
    try:
        yield
    finally:
        # Who looked at a callback's ``model`` has let the variables have them for good.
        for variable, before, _ in kept if not model._jax_state_synced else ():
            variable._value = before


def take_over(model: Any) -> None:
    """Let the variables have their values, and the loop take them from there."""
    sync = getattr(model, "jax_state_sync", None)
    if sync is not None:
        sync()


def held_by_loop(model: Any) -> bool:
    """Whether the loop keeps the values now."""
    return bool(_of_loop(model))
