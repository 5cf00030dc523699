"""Which images and sequences a model takes, by the shapes of its inputs."""

import keras
import pytest

from trainers.trials import input_size
from trainers.trials.input_size import IMAGES, SEQUENCES, InputSize


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(None, None, None, 3)], InputSize(kind=IMAGES, sides=(1, 2), rank=4)),
        ([(None, 3, None, None)], InputSize(kind=IMAGES, sides=(2, 3), rank=4)),
        ([(None, 8), (None, None, None, 3)],
         InputSize(kind=IMAGES, sides=(1, 2), rank=4)),
        ([(None, 128, 96, 3)], InputSize(fixed="images of 128 x 96")),
        ([(None, 3, 128, 96)], InputSize(fixed="images of 128 x 96")),
        ([(None, None, 96, 3)], InputSize(fixed="images of any x 96")),
        ([(None, None)], InputSize(kind=SEQUENCES, sides=(1,), rank=2)),
        ([(None, None, 16)], InputSize(kind=SEQUENCES, sides=(1,), rank=3)),
        ([(None, 50, 16)], InputSize(fixed="sequences of 50")),
        ([(None, 16)], InputSize()),
        ([(None, None, None, None, 1)], InputSize()),
        ([], InputSize()),
    ],
)  # fmt: skip
def test_what_is_open(
    shapes: list[tuple[int | None, ...]], expected: InputSize
) -> None:
    """A table of features has no size that could be halved."""
    assert input_size.of_shapes(shapes) == expected


def test_a_model_says_it_itself_or_not_at_all() -> None:
    """One of a class of the script's has no inputs before it is called."""
    model = keras.Sequential(
        [keras.Input((None, None, 1)), keras.layers.Conv2D(2, 3), keras.layers.ReLU()]
    )
    assert input_size.of_model(model).kind == IMAGES
    assert input_size.convolutions(model) == 1
    assert input_size.of_model(keras.Model()) == InputSize()
