"""The kinds of calls that a loop makes: what is called, how, and what comes back."""

import weakref
from typing import Any, NamedTuple

from trainers.backends.selected import backend


class CallOf(NamedTuple):
    """What a call is known by, and the template of its result."""

    function: int
    """Which of the functions, in the order of their first calls."""
    name: str
    key: str
    """Kinds and shapes of its arguments."""
    template: str = ""

    @property
    def text(self) -> str:
        """For people: without the template."""
        return f"{self.name}{self.key}"

    def is_like(self, other: "CallOf") -> bool:
        """Whether the same was called in the same way."""
        return self[:3] == other[:3]


class CallTable:
    """The kinds seen so far, by their numbers."""

    def __init__(self, known: list[list[Any]]) -> None:
        self._kinds = [CallOf(*one) for one in known]
        self._numbers = {one: number for number, one in enumerate(self._kinds)}
        self._functions: dict[tuple[int, str], tuple[weakref.ref[Any], int]] = {}
        """By ``id`` and name: the function, if there still is one, and its number."""
        self._met = 0
        self._keys: dict[Any, str] = {}

    def __getitem__(self, number: int) -> CallOf:
        return self._kinds[number]

    def _function(self, function: Any, name: str) -> int:
        """The number of ``function``, which is given at its first call."""
        place = id(function), name
        known = self._functions.get(place)
        if known is None or known[0]() is not function:
            known = self._functions[place] = weakref.ref(function), self._met
            self._met += 1
        return known[1]

    def call_of(self, function: Any, name: str, key: Any) -> CallOf:
        """A call of ``function``, or of a model's method; arguments are known by ``key``."""
        text = self._keys.get(key)
        if text is None:
            text = self._keys[key] = repr(key)
        return CallOf(self._function(function, name), name, text)

    def number(self, call: CallOf, template: str) -> int:
        """The number of its kind."""
        whole = call._replace(template=template)
        number = self._numbers.get(whole)
        if number is None:
            number = self._numbers[whole] = len(self._kinds)
            self._kinds.append(whole)
        return number

    def to_json(self) -> list[list[Any]]:
        """As ``__init__`` takes it."""
        return [list(one) for one in self._kinds]


class ChangedVariables:
    """The variables that calls change, and which of them the script has not seen since.

    In the order in which they were first met, which is the same in each attempt.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        """By the variable's handle."""
        self.handles: list[int] = []
        self._by: dict[int, frozenset[int]] = {}
        """What each function changes."""
        self._stale: set[int] = set()
        self._marked: dict[int, int] = {}
        self._seen = 0

    def is_known(self, function: int) -> bool:
        """Whether it was told what ``function`` changes."""
        return function in self._by

    def by(self, function: int, handles: list[int]) -> None:
        """``function`` changes these."""
        for handle in handles:
            if handle not in self.numbers:
                self.numbers[handle] = len(self.handles)
                self.handles.append(handle)
        self._by[function] = frozenset(handles)
        self._marked.pop(function, None)

    def called(self, function: int) -> None:
        """It was called: nobody has seen what it left."""
        # At most steps the same function has left the same unseen: nothing to do then.
        if self._marked.get(function) != self._seen:
            self._stale |= self._by[function]
            self._marked[function] = self._seen

    def is_stale(self, handle: int) -> bool:
        """Whether the script looks at it for the first time since."""
        return handle in self._stale

    def seen(self, handle: int) -> None:
        """It did, or gave it another value."""
        if handle in self._stale:
            self._stale.discard(handle)
            self._seen += 1

    def changes(self, function: int, handles: set[int]) -> bool:
        """Whether ``function`` changes one of these."""
        return not self._by[function].isdisjoint(handles)

    def variables(self) -> list[tuple[int, Any]]:
        """Those that there still are, by their numbers."""
        found = (
            (number, backend.calls.variable(handle))
            for number, handle in enumerate(self.handles)
        )
        return [(number, one) for number, one in found if one is not None]
