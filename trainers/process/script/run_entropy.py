"""The entropy of a run: what a script draws without a seed, the same in each attempt.

Wherever Python, NumPy or a framework would take a seed from the operating system, it gets
one that is derived from the seed of the run, from what asks and where, and how often it
has asked there: two generators differ, two runs differ, two attempts do not. A seed that
somebody sets himself holds. ``os.urandom``, ``secrets``, ``uuid`` and the clock are left
alone, and so are the names of temporary files; where training may depend on them is noted
(``unrepeatable_draws``).

How often each place has asked is state of the run like that of the generators: it is
saved and given back with theirs (``python_random``).
"""

import collections
import functools
import hashlib
import numbers
import operator
import os
import random
import sys
import threading
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from trainers.process.script import unrepeatable_draws

Counts = dict[str, int]

PASSED_OVER = frozenset({"keras", "numpy", "random", "tensorflow", "trainers"})
"""Packages that are asked by others: the place is that of who asks them."""

FORKS = "fork"
HANDED = 64
"""The last numbers that NumPy was given for itself: they are no seeds that somebody set."""


HEARS = "trainwarden_hears"
"""An attribute of what tells us of seeds already."""


class RunEntropy:
    """Seeds of one process of an attempt."""

    def __init__(self, seed: int) -> None:
        """``seed``: that of the run."""
        self._seed = seed
        self._lineage = ""
        """Of a process that was forked: which fork of which."""
        self._counts: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    def derived(self, text: str, *, bits: int) -> int:
        """A number of so many bits, always the same for ``text``."""
        whole = f"{self._seed}{self._lineage} {text}".encode()
        digest = hashlib.shake_256(whole).digest((bits + 7) // 8)
        return int.from_bytes(digest, "big") >> -bits % 8

    def draw(self, kind: str, *, bits: int) -> int:
        """The next number of so many bits for whoever asks, where it asks from."""
        # By the place, lest a thread or a library shifts what others get; by the name of
        # the function there, not by the line: a comment more changes nothing.
        place = f"{kind} {asking()}"
        return self.derived(f"{place} {self._count(place)}", bits=bits)

    def _count(self, place: str) -> int:
        with self._lock:
            self._counts[place] += 1
            return self._counts[place]

    def counts(self) -> Counts:
        """How often each place has asked so far; not of modules as they are imported."""
        with self._lock:
            asked = self._counts.items()
            return {place: n for place, n in asked if not is_import(place)}

    def put_back(self, counts: Counts) -> None:
        """Let each place have asked so often; modules as they have in this process."""
        with self._lock:
            own = {place: n for place, n in self._counts.items() if is_import(place)}
            given = {place: n for place, n in counts.items() if not is_import(place)}
            self._counts = collections.Counter({**given, **own})

    def about_to_fork(self) -> None:
        """In the parent: each child draws on its own."""
        self._count(FORKS)

    def forked(self) -> None:
        """In the child: it begins anew, by its number among the children."""
        self._lock = threading.Lock()  # another thread may have held it
        self._lineage = f"{self._lineage}/{self._counts[FORKS]}"
        self._counts.clear()


def is_import(place: str) -> bool:
    """Whether a module asks as it is imported, which is once in each process, and may be
    early in one and late in another (a compiler that has nothing to do, say)."""
    return place.endswith(":<module>") and not place.endswith(" __main__:<module>")


_current: list[RunEntropy] = []
_ahead: list[RunEntropy] = []
"""Installed before the attempt was told anything."""


def counts() -> Counts:
    """Those of this process; none where it draws its entropy elsewhere."""
    return _current[0].counts() if _current else {}


def put_back(counts: Counts | None) -> None:
    """Give them back; None: the snapshot is of a version that had none."""
    if _current and counts is not None:
        _current[0].put_back(counts)


def asking() -> str:
    """Module and function of the code that asks, libraries of random numbers left out."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # as the standard library does
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in PASSED_OVER:
            return f"{module}:{frame.f_code.co_qualname}"
        frame = frame.f_back
    return ""


def install(seed: int) -> RunEntropy:
    """From now on this process draws from ``seed``, Python's generators first."""
    if _ahead:
        return _ahead.pop()
    entropy = RunEntropy(seed)
    _current[:] = [entropy]
    _python(entropy)
    os.register_at_fork(
        before=entropy.about_to_fork, after_in_child=lambda: _forked(entropy)
    )
    return entropy


def install_ahead(seed: int) -> RunEntropy:
    """The same, before the attempt begins: its ``install`` of that seed takes it up."""
    entropy = install(seed)
    _ahead[:] = [entropy]
    return entropy


def _python(entropy: RunEntropy) -> None:
    """``random.Random()``, ``random.seed()`` and the functions of the module."""
    original = random.Random.seed

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None and asking().partition(":")[0] != "tempfile":
            a = entropy.draw("random", bits=256)
        else:
            unrepeatable_draws.seed_set(a)
        original(self, a, version)

    seed.__doc__, seed.__qualname__ = original.__doc__, original.__qualname__
    random.Random.seed = seed  # type: ignore[method-assign]
    shared: Any = vars(random)["_inst"]
    vars(random)["seed"] = shared.seed
    shared.seed(entropy.derived("random", bits=256))


def _forked(entropy: RunEntropy) -> None:
    # Python seeds its own anew in each child, by a function that it remembers.
    entropy.forked()
    random.seed(entropy.derived("random", bits=256))


def numpy_asks(entropy: RunEntropy, bit_generator: ModuleType) -> None:
    """Whatever NumPy makes without a seed: it asks ``secrets.randbits`` by this name."""
    original = vars(bit_generator).get("_coerce_to_uint32_array")
    if getattr(original, HEARS, False):  # a standby had imported it ahead
        return
    handed: collections.deque[int] = collections.deque(maxlen=HANDED)

    def randbits(bits: int) -> int:
        number = entropy.draw("numpy", bits=bits)
        handed.append(number)
        return number

    vars(bit_generator)["randbits"] = randbits
    if original is None:  # a NumPy that has it by another name: seeds are not heard
        return

    def coerce(
        given: Any,
    ) -> Any:  # of SeedSequence, which all new generators are made by
        if isinstance(given, numbers.Integral) and given not in handed:
            unrepeatable_draws.seed_set(int(given))
        return original(given)

    setattr(coerce, HEARS, True)
    vars(bit_generator)["_coerce_to_uint32_array"] = coerce


def numpy_seeds(_entropy: RunEntropy, mt19937: ModuleType) -> None:
    """Seeds of NumPy's older generators (``np.random.seed``, ``RandomState``): they ask
    ``operator.index`` by this name for nothing else."""

    def index(seed: Any) -> int:
        unrepeatable_draws.seed_set(seed)
        return operator.index(seed)

    vars(mt19937)["operator"] = SimpleNamespace(index=index)


def numpy_begins(entropy: RunEntropy, mtrand: ModuleType) -> None:
    """NumPy's global generator, which is made when NumPy is imported."""
    words = [entropy.derived(f"numpy {one}", bits=32) for one in range(8)]
    mtrand.seed(words)


def torch_begins(entropy: RunEntropy, torch: ModuleType) -> None:
    """PyTorch's default generators, on all devices; a later seed takes their place."""
    torch.manual_seed(entropy.derived("torch", bits=63))
    original = torch.manual_seed

    @functools.wraps(original)
    def manual_seed(seed: Any) -> Any:
        unrepeatable_draws.seed_set(seed)
        return original(seed)

    vars(torch)["manual_seed"] = vars(torch.random)["manual_seed"] = manual_seed
