"""The list of a model's variables that decide the rest of its training, on any backend."""

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import keras

Answer = TypeVar("Answer")

NO_STATE_IN = frozenset(
    {
        "_layers", "_operations", "_operations_by_depth", "_nodes_by_depth",
        "_compiled_trainable_state", "_self_unconditional_checkpoint_dependencies",
    }
)  # fmt: skip
"""Attributes of Keras with an item for each layer, none of which is a variable, metric
or optimizer: to look at them took a quarter of the time for a model of many layers."""


def _attributes(model: Any) -> Iterator[Any]:
    """Attributes of the model itself, and what lies in those that are containers."""
    for name, value in list(vars(model).items()):
        if name in NO_STATE_IN:
            continue
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _inside(model: Any) -> Iterator[Any]:
    """What layers keep that Keras does not count among their variables.

    That is what the script's own classes have as attributes, and the optimizers of
    models inside of the model. Keras' own layers have nothing of the kind.
    """
    layers = getattr(model, "_flatten_layers", None)
    for layer in () if layers is None else layers(include_self=False):
        kind: type = type(layer)  # undeclared, mypy takes it for unhashable
        is_own, is_model = _sort_of(kind)
        if is_own:
            yield from _attributes(layer)
        elif is_model:
            yield vars(layer).get("optimizer")


def _of_types(answer: Callable[[type], Answer]) -> Callable[[type], Answer]:
    """``answer``, asked once for each type, of which none is kept alive.

    A class may be made for one model, and its methods close over that and its data.
    """
    known: weakref.WeakKeyDictionary[type, Answer] = weakref.WeakKeyDictionary()

    def ask(kind: type) -> Answer:
        try:
            return known[kind]
        except KeyError:
            return known.setdefault(kind, answer(kind))

    return ask


@_of_types
def _sort_of(layer: type) -> tuple[bool, bool]:
    """Whether such layers are the script's own, and whether they are models."""
    return not layer.__module__.startswith("keras."), issubclass(layer, keras.Model)


def unused_optimizers(model: Any) -> list[Any]:
    """Further optimizers that the model keeps, and that have no variables yet."""
    kept = getattr(model, "optimizer", None)
    return [
        one
        for one in _attributes(model)
        if isinstance(one, keras.optimizers.Optimizer)
        and not one.built
        and one is not kept
    ]


def build_own_optimizers(model: Any, _element_spec: Any) -> None:
    """Make the variables of further optimizers that the model keeps, for all that it
    trains."""
    for one in _attributes(model):
        if isinstance(one, keras.optimizers.Optimizer) and not one.built:
            one.build(model.trainable_variables)


def _no_others(_variable: Any) -> tuple[Any, ...]:
    """It is one."""
    return ()


class Listing:
    """What is listed on one backend."""

    def __init__(
        self,
        kinds: tuple[type, ...],
        *,
        raw: Callable[[Any], Any | None],
        identity: Callable[[Any], int],
        others: Callable[[Any], tuple[Any, ...]] = _no_others,
    ) -> None:
        """``kinds``: of what is state beside optimizers and metrics. ``raw(value)``: the
        variable that such a value is, or keeps its state in. ``identity(variable)``: a
        number that is the same for two that are one. ``others(variable)``: its copies on
        further devices, which have values of their own."""
        state = (keras.optimizers.Optimizer, keras.Metric, *kinds)
        self._is_state = _of_types(lambda kind: issubclass(kind, state))
        self._raw, self._identity, self._others = raw, identity, others

    def listed(self, model: Any) -> list[tuple[str, Any]]:
        """Every variable that decides the rest of training, once, after what it is.

        Those of the model, its metrics (the loss tracker and compiled ones included), its
        optimizer, and what else a subclass or a layer of one keeps: further optimizers,
        metrics, variables, random generators. One that has a copy for each replica stands
        for the first of them, and is followed by the others.
        """
        optimizers = [getattr(model, "optimizer", None)]
        metrics, own = list(model.metrics), []
        for value in itertools.chain(_attributes(model), _inside(model)):
            kind: type = type(value)  # as in ``_inside``
            if not self._is_state(kind):  # asked of thousands, of few types
                continue
            if isinstance(value, keras.optimizers.Optimizer):
                optimizers.append(value)
            elif isinstance(value, keras.Metric):
                metrics.append(value)
            elif (raw := self._raw(value)) is not None:
                own.append(raw)
        groups = (
            ("model", model.variables),
            *(("metric", metric.variables) for metric in metrics),
            *(("optimizer", getattr(one, "variables", ())) for one in optimizers),
            ("own", own),
        )
        unique: dict[int, tuple[str, Any]] = {}
        for group, members in groups:
            for one in members:
                unique.setdefault(self._identity(one), (group, one))
                for other in self._others(one):
                    unique.setdefault(self._identity(other), (group, other))
        return list(unique.values())

    def variables(self, model: Any) -> list[tuple[str, Any]]:
        """What ``listed`` finds, each after a readable name."""
        return [
            (f"{group}:{getattr(one, 'path', None) or getattr(one, 'name', '')}", one)
            for group, one in self.listed(model)
        ]
