"""Slices on PyTorch: what ``backends.slices`` asks of it.

Memory is known on GPUs alone: there the first steps measure which slice fits, as on
TensorFlow. The allocator of a CPU keeps no figures: there a slice is halved at each
attempt that runs out of memory.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from trainers.backends import keras_losses
from trainers.backends.memory.allocator_figures import Figures, PeakReading
from trainers.backends.slices import deviations as sentences
from trainers.backends.slices.slice_loss import LossRules
from trainers.backends.torch import (
    torch_fit,
    torch_memory,
    torch_random,
    torch_variables,
)
from trainers.backends.torch.torch_sliced_step import TorchReducedStep, TorchSlicedStep
from trainers.process.script import python_random

NOT_COMPILED = (
    "The step is compiled by torch.compile; its slices are not: they take longer, and agree"
    " with it up to rounding."
)


class PlainCount:
    """An integer that the step reads anew each time."""

    def __init__(self, value: int) -> None:
        self._value = value

    def assign(self, value: int) -> None:
        """Let it be ``value``."""
        self._value = int(value)

    def numpy(self) -> int:
        """What it is."""
        return self._value


own_variable = PlainCount


def step(model: Any, *, rules: LossRules, wide_products: bool) -> Callable[..., Any]:
    """Makes the step of the sums over its slices; kernels are what PyTorch has."""
    del wide_products
    return functools.partial(TorchSlicedStep, model, rules=rules)


def reduced_step(
    model: Any, *, exponent: float, rates: Sequence[Any]
) -> Callable[..., Any]:
    """Makes the script's own step for each slice."""
    return functools.partial(TorchReducedStep, model, exponent=exponent, rates=rates)


def computed_by(_model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """As it is: only whole steps are compiled here."""
    return function


def why_not_on_devices(_model: Any) -> str | None:
    """There is one; in a process group no fit is followed."""
    return None


def is_sparse(leaf: Any) -> bool:
    """Nested ones, too."""
    if not isinstance(leaf, torch.Tensor):
        return False
    return leaf.layout is not torch.strided or leaf.is_nested


def compiles_less(model: Any) -> str | None:
    """Slices are a loop, which torch.compile would unroll."""
    return NOT_COMPILED if model.jit_compile else None


def changed_by_steps(model: Any) -> list[str]:
    """Gradients in half precision are rounded in each slice, and hooks see them so."""
    told = []
    if keras_losses.computes_in_half(model):
        told.append(sentences.HALF)
    if any(_hooked(one.value) for one in model.trainable_weights):
        told.append(sentences.HOOKS)
    return told


def _hooked(tensor: Any) -> bool:
    places = ("_backward_hooks", "_post_accumulate_grad_hooks")
    return any(getattr(tensor, place, None) for place in places)


@contextlib.contextmanager
def _unrounded() -> Iterator[None]:
    places = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    try:
        yield
    finally:
        for place, was in zip(places, before, strict=True):
            place.allow_tf32 = was


@contextlib.contextmanager
def kept(model: Any) -> Iterator[None]:
    """Modules of PyTorch's are told by a flag that they train, and keep buffers.

    Products are not rounded to TensorFloat-32 within, as which are may depend on the
    size of a batch.
    """
    modes = [
        (module, module.training) for _, module in torch_variables.modules_of(model)
    ]
    buffers = torch_variables.KeptBuffers(module for module, _ in modes)
    before = torch_random.state()
    model.train()
    try:
        with python_random.untouched(), _unrounded():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        buffers.put_back()
        torch_random.put_back(before)


@contextlib.contextmanager
def stirred_beside(model: Any) -> Iterator[list[tuple[Any, bool]]]:
    """An unseeded layer of Keras' draws from PyTorch's own generator, as modules of
    PyTorch's do; these keep their statistics in buffers. What the script wrote may draw
    from NumPy's, or Python's."""
    found: list[tuple[Any, bool]] = []
    every = keras_losses.all_layers(model)
    buffers = [(one, torch_variables.KeptBuffers(one.modules())) for one in every]
    with _draws_noted(every) as drawing:
        yield found
    changed = [layer for layer, kept in buffers if kept.changed]
    found += [(layer, True) for layer in _innermost(drawing)]
    found += [(layer, False) for layer in _innermost(changed)]


@contextlib.contextmanager
def _draws_noted(layers: Sequence[Any]) -> Iterator[list[Any]]:
    """Those of ``layers`` in whose ``call`` something was drawn, those inside of them
    among them."""
    drawing: list[Any] = []

    def noting(layer: Any) -> Callable[..., Any]:
        original = layer.call

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            before, plain = _drawn_so_far(), python_random.state()
            result = original(*args, **kwargs)
            if not (
                all(map(torch.equal, before, _drawn_so_far()))
                and python_random.same(plain, python_random.state())
            ):
                drawing.append(layer)
            return result

        return call

    own = [(vars(layer), vars(layer).get("call")) for layer in layers]
    for layer in layers:
        vars(layer)["call"] = noting(layer)
    try:
        yield drawing
    finally:
        for names, before in own:
            del names["call"]
            if before is not None:
                names["call"] = before


def _drawn_so_far() -> list[Any]:
    on_gpu = [torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *on_gpu]


def _innermost(layers: Sequence[Any]) -> list[Any]:
    """Each once; not those around one of them."""
    once = {id(layer): layer for layer in layers}
    return [
        layer
        for layer in once.values()
        if not any(id(one) in once for one in keras_losses.layers_below(layer))
    ]


def drawn_as_whole(
    _model: Any,
    _few: Any,
    _spans: Sequence[tuple[int, int]],
    _before: dict[int, Any],
) -> list[tuple[Any, Any]] | None:
    """PyTorch's generators go on from number to number: where a slice's begin is not
    known without drawing all before."""
    return None


def reader_of_gpu() -> torch_memory.TorchReader | None:
    """The allocator of the GPU that Keras computes on; None: it does so on a CPU."""
    device = torch_fit.device()
    if device.type != "cuda":
        return None
    return torch_memory.TorchReader(torch.cuda, device.index)


def limit_bytes() -> int | None:
    """What the process may take of the GPU, or what is left there, whichever is less."""
    reader = reader_of_gpu()
    found = None if reader is None else reader.read()
    return None if found is None else found.limit


def peak() -> PeakReading | None:
    """Of the GPU that Keras computes on."""
    reader = reader_of_gpu()
    counts = None if reader is None else reader.counts()
    return (
        None
        if counts is None
        else PeakReading(current_bytes=counts[0], peak_bytes=counts[1])
    )


def reset_peak() -> None:
    """Where there is one."""
    reader = reader_of_gpu()
    if reader is not None:
        reader.begin()


def figures(*, needed: bool) -> Figures | None:
    """Nobody asks for these: no request is counted, and free memory that does not lie
    together is joined by way of the device."""
    del needed
    return None  # as the Protocol has it


def wait(_results: Any) -> None:
    """All that was given to the GPU is done."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
