"""Training data that Keras takes from a loader of PyTorch's: arrays, and loaders as such.

The order of a pass comes from random generators as they stood when the pass began and
when its first batch was asked for. Both are kept: a pass that is taken up begins again
with them, and what was done of it is counted, not read, where no worker reads ahead.
"""

from collections.abc import Iterator
from typing import Any

from typing_extensions import override

from trainers.backends import keras_compat, torch_loaders
from trainers.backends.selected import backend
from trainers.data import data_fingerprint
from trainers.data.direct_source import DirectSource
from trainers.process.script import python_random

NOT_THE_SAME = (
    "the training data come from a DataLoader of PyTorch, and {}: after a restart an epoch"
    " is begun again, and what was done of it is left out, which is exact only if it hands"
    " out the same batches again"
)

State = dict[str, Any]


class TorchSource(DirectSource):
    """A loader that is begun anew for each pass."""

    def __init__(self, iterator: Any) -> None:
        """``iterator``: the epoch iterator that was just constructed."""
        super().__init__(iterator)
        self._began: State | None = None
        self._asked: State | None = None

    def _loader(self) -> Any:
        """That of the pass which begins now."""
        return self.adapter.get_torch_dataloader()

    def _generators(self) -> State:
        """All that a pass may draw its order from, as they stand now."""
        own = torch_loaders.states([self._loader()])
        return {**python_random.state(), **backend.random.state(), "own": own}

    def _put_generators(self, state: State | None) -> None:
        if state is not None:
            backend.random.put_back(state)
            python_random.put_back(state)
            torch_loaders.put_back([self._loader()], state["own"])

    @override
    def first_batch(self) -> Any:
        """One of a pass of its own; the generators are left as they were."""
        before = self._generators()
        try:
            return next(iter(self._loader()))
        finally:
            self._put_generators(before)

    @override
    def order(self) -> Any:
        """The generators as they stood when this pass began, and at its first batch."""
        return {"began": self._began, "asked": self._asked}

    @override
    def put_order_back(self, order: Any) -> None:
        """They are put there for the order of what is left of it."""
        self._began, self._asked = order["began"], order["asked"]

    @override
    def _iterate(self, dataset: Any, *, drawn: int = 0) -> Any:
        self._began, self._asked = self._generators(), None
        return self._first_noted(super()._iterate(dataset, drawn=drawn))

    def _first_noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        self._asked = self._generators()
        yield from batches

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """The rest of the pass; who restores puts the generators where they belong."""
        self.begun, self.drawn, self._given = begun, drawn, drawn
        if self._total is not None and drawn >= self._total:
            return iter(())
        self._put_generators(self._began)
        loader = self._loader()
        batches = iter(loader)
        if not drawn:
            return self._first_noted(self._counted(batches))
        self._put_generators(self._asked)
        torch_loaders.pass_over(loader, batches, drawn)
        return self._counted(batches)


class TorchArraySource(TorchSource):
    """Arrays and tensors, in the order that Keras draws by PyTorch's generator."""

    kind = "arrays"

    def __init__(self, iterator: Any) -> None:
        super().__init__(iterator)
        given = keras_compat.array_data(self.adapter)
        self._inputs, self.samples, self._stated, _ = given

    @override
    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """Shapes, dtypes and some of the rows."""
        return {"kind": self.kind, **data_fingerprint.of_arrays(self._inputs)}


class TorchLoaderSource(TorchSource):
    """A ``DataLoader`` of the script's."""

    kind = "DataLoader"

    def __init__(self, iterator: Any) -> None:
        super().__init__(iterator)
        self._stated = self._loader().batch_size
        self.samples = torch_loaders.samples_of(self._loader())

    @override
    def why_not_exact(self) -> str | None:
        """Why bits cannot be promised."""
        found = torch_loaders.why_not_exact(self._loader())
        return None if found is None else NOT_THE_SAME.format(found)
