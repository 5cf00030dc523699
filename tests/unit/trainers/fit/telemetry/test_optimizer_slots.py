"""What Keras' optimizers will keep is known by their class, as what they then make shows."""

import keras
import pytest

from trainers.fit.telemetry.optimizer_slots import SLOTS, slots_of

optimizers = keras.optimizers
TRAINED = 4096
MADE = [
    *[getattr(optimizers, name)() for name in SLOTS if hasattr(optimizers, name)],
    optimizers.SGD(momentum=0.9),
    optimizers.RMSprop(momentum=0.9, centered=True),
    optimizers.Adam(amsgrad=True),
    optimizers.AdamW(use_ema=True),
    optimizers.SGD(gradient_accumulation_steps=2),
    optimizers.LossScaleOptimizer(optimizers.Adam()),
]


@pytest.mark.parametrize("optimizer", MADE, ids=lambda one: str(one.name))
def test_slots(optimizer: keras.optimizers.Optimizer) -> None:
    """A handful of single numbers beside them."""
    slots = slots_of(optimizer)
    optimizer.build([keras.Variable(keras.ops.zeros((64, 64)))])
    numbers = sum(int(one.value.shape.num_elements()) for one in optimizer.variables)
    assert slots is not None
    assert slots * TRAINED <= numbers <= slots * TRAINED + 20


class Own(keras.optimizers.Adam):
    """A class of a script's."""


def test_of_others_nothing_is_known() -> None:
    """They may keep anything."""
    assert slots_of(Own()) is None
    assert slots_of(optimizers.Adafactor()) is None
    assert slots_of(optimizers.LossScaleOptimizer(Own())) is None
