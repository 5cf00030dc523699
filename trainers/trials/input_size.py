"""The sizes of images and the lengths of sequences that a model of Keras takes."""

from dataclasses import dataclass
from typing import Any

from trainers.backends import keras_losses

IMAGES, SEQUENCES = "images", "sequences"
_IMAGE = 4
"""Dimensions of a batch of images."""
_STEPS = 3
"""... and of sequences of vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSize:
    """What the inputs of a model leave open."""

    kind: str = ""
    """``images`` or ``sequences``; empty: neither, or the model does not say."""
    sides: tuple[int, ...] = ()
    """Dimensions of a batch that may be of any size."""
    rank: int = 0
    """Dimensions of a batch of these inputs."""
    fixed: str = ""
    """The one size that it takes, as people write it; empty: there is none."""


def of_model(model: Any) -> InputSize:
    """By the shapes of its inputs, images before sequences."""
    return of_shapes([tuple(one.shape) for one in getattr(model, "inputs", None) or []])


def of_shapes(shapes: list[tuple[int | None, ...]]) -> InputSize:
    """The same, of the shapes of batches."""
    images = [one for one in shapes if len(one) == _IMAGE]
    if images:
        return _of_image(images[0])
    for shape in shapes:
        if len(shape) in {2, _STEPS} and shape[1] is None:
            return InputSize(kind=SEQUENCES, sides=(1,), rank=len(shape))
    steps = [one[1] for one in shapes if len(one) == _STEPS]
    return InputSize(fixed=f"sequences of {steps[0]}") if steps else InputSize()


def _of_image(shape: tuple[int | None, ...]) -> InputSize:
    """Channels come last, or first: they are never open."""
    open_sides = tuple(side for side in (1, 2, 3) if shape[side] is None)
    if open_sides in {(1, 2), (2, 3)}:
        return InputSize(kind=IMAGES, sides=open_sides, rank=_IMAGE)
    first, last = shape[1], shape[3]
    channels_first = first is not None and (last is None or last > first)
    sides = shape[2:4] if channels_first else shape[1:3]
    fixed = " x ".join("any" if one is None else str(one) for one in sides)
    return InputSize(fixed=f"images of {fixed}")


def convolutions(model: Any) -> int:
    """Layers of ``model`` that are some, by their name."""
    return sum("Conv" in type(one).__name__ for one in keras_losses.all_layers(model))
