"""Draws that no later attempt can make again: of the system, or by a seed of the clock.

``os.urandom`` and the clock are left as they are (``run_entropy``). What the script's own
code takes from the system, and a seed that is another one in each attempt, is noted with
its place, and whoever promises bits hears of it at the latest at the first step. Whether
training depends on it nobody knows: it may be a name for a file. Better to promise
nothing than too much. What libraries draw for themselves (``uuid4``, ``tempfile``) is none
of it.

As a second net the seeds that the script sets are kept, to be compared with those of the
attempt before.
"""

import contextlib
import functools
import hashlib
import linecache
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from trainers.process.environment.installed_packages import is_installed
from trainers.process.script.clock_seeds import looks_like_clock
from trainers.process.script.seed_source import Parameters, Position, SeedSource

DRAWS = (
    "{place} draws from {source}, which no later attempt can draw again: if training"
    " depends on it, it does not end the same after a restart (what is drawn without a seed"
    " from random, numpy or the framework is the same in each attempt)"
)
SEEDS = (
    "{place} seeds with {seed}, which looks like the clock or an id and so is another"
    " number in each attempt: what is drawn from it is not the same after a restart (leave"
    " the seed out, and draws are the same in each attempt of a run and others in the next"
    " run)"
)
SEEDS_SET = "seeds"
"""Key in ``Manifest.state``: digests of those that the script had set."""
URANDOM = "os.urandom"
GETRANDOM = "os.getrandom"
SYSTEM_RANDOM = "random.SystemRandom (or secrets)"

BETWEEN = frozenset({
    "imblearn", "jax", "keras", "keras_cv", "keras_hub", "lightning", "numpy", "pandas",
    "random", "scipy", "sklearn", "tensorflow", "tf_keras", "torch", "transformers",
})  # fmt: skip
"""Packages that set a seed for others: whose it is, is asked further out."""
OF_SYSTEM = frozenset({"random", "secrets"})
MOST_SEEDS = 256
"""That are kept to be compared."""
MOST_LOOKS = 16
"""At the seeds of one place: a loader may seed anew for each sample."""
MOST_FRAMES = 8
MOST_SOURCE = 500_000
"""Characters of a file that is looked into."""
_ROOT = Path(__file__).resolve().parents[3]
_OURS = (f"{_ROOT}{os.sep}trainers{os.sep}", f"{_ROOT}{os.sep}supervisor{os.sep}")


@dataclass(frozen=True, slots=True)
class SetSeed:
    """A seed that the script has set."""

    key: str
    """Which function sets it, and how many that has set before: a seed of another branch
    shifts no others."""
    digest: str
    place: str


class UnrepeatableDraws:
    """What was noted in this process. Safe from several threads."""

    def __init__(self, is_training: Callable[[], bool]) -> None:
        """``is_training``: whether a ``fit`` runs; a later attempt need not repeat what
        is seeded within."""
        self._is_training = is_training
        self.sentences: list[str] = []
        """Why bits cannot be promised."""
        self.seeds: list[SetSeed] = []
        self._places: set[str] = set()
        self._looks: Counter[tuple[object, int]] = Counter()
        self._set_by: Counter[str] = Counter()

    def drawn(self, source: str, frame: FrameType) -> None:
        """The script's code in ``frame`` draws from the system."""
        self._note(frame, DRAWS.format(place=place_of(frame), source=source))

    def seeded(self, seed: object, frame: FrameType, *, behind: int) -> None:
        """It sets a seed, ``behind`` so many frames of libraries."""
        here = frame.f_code, frame.f_lasti
        self._looks[here] += 1
        if self._looks[here] > MOST_LOOKS:
            return
        fresh = looks_like_clock(seed, now_ns=time.time_ns())
        if fresh or _is_fresh(frame, named=behind > 0):
            text = f"{seed!r:.40}"
            self._note(frame, SEEDS.format(place=place_of(frame), seed=text))
        self._keep(seed, frame)

    def _note(self, frame: FrameType, sentence: str) -> None:
        place = place_of(frame)
        if place not in self._places:  # a draw a sample would be a sentence a sample
            self._places.add(place)
            self.sentences.append(sentence)

    def _keep(self, seed: object, frame: FrameType) -> None:
        main = threading.current_thread() is threading.main_thread()
        if not main or self._is_training() or len(self.seeds) >= MOST_SEEDS:
            return
        digest = hashlib.blake2b(repr(seed).encode(), digest_size=8).hexdigest()
        name = os.path.basename(frame.f_code.co_filename)  # noqa: PTH119  # often
        function = f"{name}:{frame.f_code.co_qualname}"
        self._set_by[function] += 1
        key = f"{function}#{self._set_by[function]}"
        self.seeds.append(SetSeed(key, digest, place_of(frame)))


_current: list[UnrepeatableDraws] = []


def sentences() -> list[str]:
    """Why bits cannot be promised, as far as was drawn; more may come."""
    return _current[0].sentences if _current else []


def seeds() -> list[str]:
    """Those that the script has set outside of ``fit``, the first of them: who has, and a
    digest."""
    return [f"{one.key} {one.digest}" for one in _current[0].seeds] if _current else []


def other_seed(before: list[str]) -> str | None:
    """Where a seed was set that is another than in the attempt with ``before``, its
    ``seeds``; None: those that both have set are the same."""
    known = dict(one.rpartition(" ")[::2] for one in before)
    for now in _current[0].seeds if _current else []:
        if known.get(now.key, now.digest) != now.digest:
            return now.place
    return None


# --- who asks -------------------------------------------------------------------------


def place_of(frame: FrameType) -> str:
    """``train.py:12``."""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"  # noqa: PTH119  # often


def is_scripts(frame: FrameType) -> bool:
    """Whether it runs code of the script, or of a module of its own."""
    if frame.f_globals.get("__name__") == "__main__":
        return True
    return _is_own_file(frame.f_code.co_filename)


@functools.cache
def _is_own_file(file: str) -> bool:
    return not (file.startswith(("<", *_OURS)) or is_installed(file))


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _behind(frame: FrameType | None, packages: frozenset[str]) -> tuple[Any, int]:
    """The script's frame that has ``frame`` called, and how many of ``packages`` lie in
    between; None: others have."""
    count = 0
    while frame is not None and count < MOST_FRAMES:
        if is_scripts(frame):
            return frame, count
        if _package(frame) not in packages:
            break
        frame, count = frame.f_back, count + 1
    return None, count


def _is_fresh(frame: FrameType, *, named: bool) -> bool:
    """Whether the source says so, of this call or of those that hand it the seed."""
    wanted: Parameters | None = None
    for caller in _own_frames(frame):
        source = _source_of(caller.f_code.co_filename)
        position = _position_in(caller)
        call = source and position and source.call_at(position)
        if not (source and call):
            return False
        if wanted is None:
            seeds = source.seeds(call, named=named)
        else:
            seeds = source.given(call, wanted)
        if source.is_fresh(seeds):
            return True
        wanted = source.parameters(call, seeds)
        if not wanted:
            return False
    return False


def _own_frames(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(MOST_FRAMES):
        if frame is None or not is_scripts(frame):
            return
        yield frame
        frame = frame.f_back


def _position_in(frame: FrameType) -> Position | None:
    """That of the call which the frame makes."""
    positions = list(frame.f_code.co_positions())
    first, last, begin, end = positions[frame.f_lasti // 2]
    if first is None or last is None or begin is None or end is None:
        return None
    return first, last, begin, end


@functools.cache
def _source_of(file: str) -> SeedSource | None:
    text = "".join(linecache.getlines(file))  # as it is run, whatever lies there now
    if not text or len(text) > MOST_SOURCE:
        return None
    try:
        return SeedSource(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


# --- hooks ----------------------------------------------------------------------------


def install(is_training: Callable[[], bool]) -> UnrepeatableDraws:
    """From now on the draws of this process are noted."""
    found = UnrepeatableDraws(is_training)
    _current[:] = [found]
    _hear_of(os, "urandom", URANDOM)
    if hasattr(os, "getrandom"):
        _hear_of(os, "getrandom", GETRANDOM)
    for name in ("random", "getrandbits", "randbytes"):
        _hear_of(random.SystemRandom, name, SYSTEM_RANDOM)
    secrets = sys.modules.get("secrets")
    if secrets is not None:  # it keeps the method
        vars(secrets)["randbits"] = vars(secrets)["_sysrand"].getrandbits
    return found


def _hear_of(owner: Any, name: str, source: str) -> None:
    original = getattr(owner, name)
    packages = OF_SYSTEM if source == SYSTEM_RANDOM else frozenset[str]()

    def note() -> None:
        with contextlib.suppress(Exception):  # it is not worth the script
            below = sys._getframe(2)  # noqa: SLF001  # as the standard library does
            frame, _ = _behind(below, packages)
            if frame is not None and _current:
                _current[0].drawn(source, frame)

    if owner is os:
        setattr(owner, name, _Builtin(original, note))
        return

    @functools.wraps(original)
    def draw(*args: Any, **kwargs: Any) -> Any:
        note()
        return original(*args, **kwargs)

    setattr(owner, name, draw)


class _Builtin:
    """A function of ``os`` that is heard, and like a builtin no method of a class that
    keeps it."""

    def __init__(self, original: Any, note: Callable[[], None]) -> None:
        self._original, self._note = original, note
        functools.update_wrapper(self, original)
        self.__module__ = "os"  # for pickle

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._note()
        return self._original(*args, **kwargs)

    def __reduce__(self) -> str:  # type: ignore[explicit-override]  # no typing_extensions here
        return str(self._original.__name__)


def seed_set(seed: object) -> None:
    """A generator is about to be given ``seed``: called by the hooks of each kind."""
    if seed is None or not _current:
        return
    with contextlib.suppress(Exception):  # as above
        frame, behind = _behind(sys._getframe(2), BETWEEN)  # noqa: SLF001  # as above
        if frame is not None:
            _current[0].seeded(seed, frame, behind=behind)
