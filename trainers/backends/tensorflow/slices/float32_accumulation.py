"""Gradients in half precision, summed over samples in float32 and rounded once.

The gradient of a weight is a sum over the samples of a batch. Where a layer computes in
float16 or bfloat16, TensorFlow makes that sum in float32 and rounds it (by up to 2^-11
or 2^-8 of it). Parts of the sum that are rounded one by one do not add up to that: the
weights of a fit in slices would differ from those of one in whole batches. So the graph
of a slice is asked for the sum before it was rounded, and the sum of all slices is
rounded, once, as that of the whole batch would have been.

The sums alone cost nothing. Products (kernels) are computed from float32 copies of what
they are made of, one layer's at a time; a GPU that multiplies float16 in tensor cores
and float32 without would take several times as long for them: see ``products_pay``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

HALF = frozenset({tf.float16, tf.bfloat16})
SUMS = frozenset({"BiasAddGrad", "Sum"})
PRODUCTS = frozenset(
    {
        "MatMul", "Einsum", "BatchMatMulV2", "Conv2DBackpropFilter",
        "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter",
    }
)  # fmt: skip
MOVES = frozenset({"Reshape", "Squeeze", "ExpandDims", "Transpose", "Identity"})
"""Operations that change no value, of their first input."""
_RENAMED = {"reduction_indices": "axis", "squeeze_dims": "axis", "dim": "axis"}
"""Arguments that ``tf.raw_ops`` knows by another name than the operation's definition."""
TENSOR_FLOAT_32 = (8, 0)
"""Compute capability from which float32 is multiplied in tensor cores, with float16's
ten bits after the point (NVIDIA's A100 white paper, "TF32")."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the gradient of a slice, to be added up over slices by itself."""

    tensor: Any
    half: tf.DType | None = None
    """What the sum of all slices has to be rounded to; None: it is not rounded."""

    def finished(self, total: Any) -> Any:
        """The sum of all slices, as the whole batch would have it."""
        if self.half is None:
            return total
        return tf.cast(tf.cast(total, self.half), total.dtype)


def terms(gradient: Any, *, products: bool) -> list[Term]:
    """What makes up ``gradient``, a tensor of the graph that is being traced.

    One term or two: what was rounded as the last thing that was done to it, from
    before it was, and the rest (of a weight with a regulariser, that one's share).
    ``products``: also where this means to multiply in float32.
    """
    if tf.executing_eagerly() or isinstance(gradient, tf.IndexedSlices):
        return [Term(gradient)]
    if gradient.op.type not in {"AddN", "AddV2"}:
        return [_unrounded(gradient, products=products)]
    parts = [_unrounded(one, products=products) for one in gradient.op.inputs]
    rounded = [part for part in parts if part.half is not None]
    if len(rounded) != 1 or any(_shape(part) != _shape(parts[0]) for part in parts):
        return [Term(gradient)]  # of several uses each would need room of its own
    rest = [part.tensor for part in parts if part.half is None]
    return [*rounded, Term(tf.add_n(rest))]


def products_pay(gpus: Iterable[tuple[int, int] | None], *, tf32: bool) -> bool:
    """Whether kernels, too, are to be summed in float32.

    ``gpus``: the compute capability of each, None where that is not known. ``tf32``:
    whether TensorFlow may use such units. A CPU multiplies float32 no slower.
    """
    return all(
        tf32 and capability is not None and capability >= TENSOR_FLOAT_32
        for capability in gpus
    )


def products_pay_here() -> bool:
    """The same for this process."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return products_pay(
        [one.get("compute_capability") for one in details],
        tf32=tf.config.experimental.tensor_float_32_execution_enabled(),
    )


def _shape(part: Term) -> list[int | None] | None:
    shape = part.tensor.shape
    return None if shape.rank is None else shape.as_list()


def _unrounded(gradient: Any, *, products: bool) -> Term:
    cast = gradient.op
    if cast.type != "Cast" or gradient.dtype != tf.float32:
        return Term(gradient)
    rounded = cast.inputs[0]
    wide = _in_float32(rounded, SUMS | PRODUCTS if products else SUMS)
    return Term(gradient) if wide is None else Term(wide, rounded.dtype)


def _in_float32(tensor: Any, known: frozenset[str]) -> Any:
    """What ``tensor``, in half precision, is rounded from; None: it is not known."""
    operation = tensor.op
    if tensor.dtype not in HALF:
        return None
    if operation.type == "Cast":
        source = operation.inputs[0]
        return source if source.dtype == tf.float32 else None
    if operation.type in MOVES:
        wide = _in_float32(operation.inputs[0], known)
        if wide is None:
            return None
        return _again(operation, [wide, *operation.inputs[1:]])
    if operation.type not in known:
        return None
    # Not before all inputs are there: a copy of what the forward pass left would
    # otherwise be made at once, and all of them kept until they are asked for.
    with tf.control_dependencies(list(operation.inputs)):
        return _again(operation, [_copy(one) for one in operation.inputs])


def _copy(tensor: Any) -> Any:
    return tf.cast(tensor, tf.float32) if tensor.dtype in HALF else tensor


def _again(operation: Any, inputs: list[Any]) -> Any:
    """The same operation on other inputs, of which its types follow."""
    definition = operation.op_def
    settings: dict[str, Any] = {
        _RENAMED.get(one.name, one.name): operation.get_attr(one.name)
        for one in definition.attr
        if one.type != "type" and one.name != "N"
    }
    names = [_RENAMED.get(one.name, one.name) for one in definition.input_arg]
    if definition.input_arg[0].number_attr:
        settings[names[0]] = inputs
    else:
        settings.update(zip(names, inputs, strict=True))
    made: Callable[..., Any] = getattr(tf.raw_ops, operation.type)
    return made(**settings)
