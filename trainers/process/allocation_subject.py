"""The subject of a failed allocation: weights, optimizer state or data.

An exception that reaches the script does not always tell: Keras leaves its own frames
out of tracebacks, and goes on after some failures, with a model of which a part was not
made (``AttributeError: 'SymbolicTensor' object has no attribute 'handle'``). So where
these are made is watched, and a failed allocation is noted there.
"""

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from supervisor.wire.records.oom_subject import OomSubject

_OUT_OF_MEMORY = re.compile(
    r"OOM when allocating|RESOURCE_EXHAUSTED: |Dst tensor is not initialized|ran out of memory|"
    r"[Oo]ut of memory while trying to allocate|Cannot parse tensor from proto|"
    r"out of memory\. Tried to allocate|DefaultCPUAllocator: (can't allocate|not enough) memory"
)
"""The last is what becomes of a constant of a graph (zeros, say) for which there is no
room: tensorflow/core/kernels/constant_op.cc."""
_MOST_TEXT = 4000


@dataclass(frozen=True, slots=True)
class Noted:
    """An allocation that failed."""

    subject: OomSubject
    text: str
    """The exception, as a line. No reference to it: it keeps frames and tensors."""


class Watch:
    """Notes the last allocation that failed while something lasting was made."""

    def __init__(self) -> None:
        self.last: Noted | None = None
        self.count = 0
        """How many were noted: who calls something can tell whether one was."""
        self._slots: set[str] = set()
        """Paths of variables that optimizers made."""

    def note(self, error: BaseException, subject: OomSubject) -> None:
        """``error`` came while ``subject`` was made; who stands further outside knows
        better and is heard later."""
        if out_of_memory(error):
            text = f"{_name(error)}: {error}"[:_MOST_TEXT]
            self.last, self.count = Noted(subject, text), self.count + 1

    def around(
        self,
        owner: Any,
        name: str,
        subject: OomSubject,
        told: Callable[[BaseException, tuple[Any, ...]], OomSubject] | None = None,
    ) -> None:
        """Watch the method ``name`` of ``owner``; ``told`` knows the subject better, by
        the exception and the arguments. A name that is not there is not watched."""
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                made = original(*args, **kwargs)
            except Exception as error:
                self.note(error, subject if told is None else told(error, args))
                raise
            if subject is OomSubject.OPTIMIZER:
                self._slots.add(str(getattr(made, "path", "")))
            return made

        setattr(owner, name, watched)

    def whose(self, error: BaseException, args: tuple[Any, ...]) -> OomSubject:
        """Whether a variable of an optimizer could not be made: ``args`` are those of
        TensorFlow's ``_initialize_uninitialized_variables``."""
        said = str(error)
        for variable, _initial in args[1]:
            path = str(variable.name).partition(":")[0]
            if f"{path}/Initializer" in said:
                made = OomSubject.OPTIMIZER if path in self._slots else None
                return made or OomSubject.WEIGHTS
        return OomSubject.WEIGHTS

    def forget(self) -> None:
        """Training goes on: what failed before was outlived."""
        self.last = None


def out_of_memory(error: BaseException) -> bool:
    """Whether ``error``, or one it came of, says that an allocation failed."""
    return any(
        type(one).__name__ == "ResourceExhaustedError"
        or _OUT_OF_MEMORY.search(str(one)) is not None
        for one in chain(error)
    )


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and those that it came of, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


watch = Watch()
"""The one of this process."""
