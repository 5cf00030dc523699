"""What Keras' optimizers keep for each trained number, before they have made it.

They make these variables in the first step, and it may be they that find no room. To make
them earlier would be another order of what a script does: so they are counted by the class,
of Keras' own alone. How many each makes stands in its ``build`` (keras/src/optimizers).
"""

from collections.abc import Callable, Mapping
from typing import Any


def _is_set(optimizer: Any, *names: str) -> int:
    return sum(bool(getattr(optimizer, name, None)) for name in names)


SLOTS: Mapping[str, Callable[[Any], int]] = {
    "SGD": lambda one: _is_set(one, "momentum"),
    "RMSprop": lambda one: 1 + _is_set(one, "momentum", "centered"),
    "Adagrad": lambda _: 1,
    "Lion": lambda _: 1,
    "Adam": lambda one: 2 + _is_set(one, "amsgrad"),
    "AdamW": lambda one: 2 + _is_set(one, "amsgrad"),
    "Adadelta": lambda _: 2,
    "Adamax": lambda _: 2,
    "Nadam": lambda _: 2,
    "Ftrl": lambda _: 2,
    "Lamb": lambda _: 2,
}
"""Others keep less than a number for each (Adafactor), or not for all."""


def slots_of(optimizer: Any) -> int | None:
    """Numbers that it keeps for each that it trains; None: not known of this class."""
    inner = getattr(optimizer, "inner_optimizer", None)
    kind = type(optimizer)
    if not kind.__module__.startswith("keras."):
        return None
    if inner is not None:
        return slots_of(inner)
    count = SLOTS.get(kind.__name__)
    if count is None:
        return None
    kept = _is_set(optimizer, "use_ema", "gradient_accumulation_steps")
    return count(optimizer) + kept
