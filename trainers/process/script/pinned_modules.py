# asked of thousands of modules: pathlib takes 50 ms of a start
"""The pinned modules of the script: as they were when the run began (``pinned_script``).

Whatever it imports that is not installed (its neighbours, a source tree on the path) is
copied when the run first imports it. A later attempt gets that copy where the file was
changed or removed since; where it was not, nothing is different from plain Python.
Processes that are spawned anew import what is there.
"""

import contextlib
import hashlib
import importlib.util
import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

from supervisor.wire.files import open_regular
from supervisor.wire.messages.directive import Directive
from supervisor.wire.reasons import Changed, RefusalReason
from trainers.process.environment.installed_packages import is_installed
from trainers.process.script import isolation

CHANGED = (
    "{path} was changed after the run began: this attempt imports it as it was then (to"
    " take up the changes, end the run and start it again with --accept-changes)"
)
TAKEN_UP = "{path} was changed since the last attempt, and is taken up as it is now"
CHANGED_IN_THE_MIDDLE = (
    "{path}, which the script imports, was changed in the middle of the run, and is taken"
    " up as it is now (--accept-changes)"
)
CHANGED_AND_LOST = (
    "{path}, which the script imports, was changed after the run began, and what it was"
    " then is no longer kept: this attempt imports it as it is now"
)
ACCEPTED = frozenset({Changed.AS_IT_IS, Changed.NOTHING_SAVED})
REFUSED = (
    "{path}, which the script imports, was changed since the run began, so the run would"
    " not end as it began: --accept-changes goes on with the new one, --fresh begins anew"
)


def install(
    directive: Directive,
    *,
    tell: Callable[[str], None],
    withdraw: Callable[[str], None],
    refuse: Callable[[RefusalReason, str], None],
) -> None:
    """Stand before all other finders.

    ``tell`` is given sentences for a person; ``withdraw`` one why bits are not promised
    any more; ``refuse`` a reason and one with which training ends.
    """
    if directive.kept_script:
        place = Path(directive.kept_script).with_name("modules")
        rule = Changed(directive.changed_modules)
        finder = Finder(
            PinnedCopies(place), rule, tell=tell, withdraw=withdraw, refuse=refuse
        )
        sys.meta_path.insert(0, finder)


def show_as_kept(path: str, content: bytes) -> None:
    """Let tracebacks, and AutoGraph, find the source that runs, not that on disk."""
    lines = importlib.util.decode_source(content).splitlines(keepends=True)
    # Without a time of change the entry is never compared with the file.
    linecache.cache[path] = (len(content), None, lines, path)


class PinnedCopies:
    """Copies in the directory ``place``, by the path that each was read from.

    A name holds the hash of the content: what a loss of power left half is none.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._copies: dict[str, Path] = {}
        for copy in place.glob("*-*"):
            self._copies[copy.name.partition("-")[0]] = copy

    def of(self, path: Path) -> bytes | None:
        """The copy of ``path``; None: there is none that is whole."""
        copy = self._copies.get(_digest(bytes(path)))
        if copy is None:
            return None
        with contextlib.suppress(OSError), open_regular(copy) as file:
            content = file.read()
            if copy.name.endswith(_digest(content)):
                return content
        return None

    def differs(self, path: Path, content: bytes) -> bool:
        """Whether something else was kept of ``path``, be the copy whole or not."""
        copy = self._copies.get(_digest(bytes(path)))
        return copy is not None and not copy.name.endswith(_digest(content))

    def keep(self, path: Path, content: bytes) -> None:
        """Copy it, instead of what was kept of ``path``. Raises OSError."""
        name = _digest(bytes(path))
        old = self._copies.pop(name, None)
        if old is not None:
            old.unlink()
        self._place.mkdir(mode=0o750, parents=True, exist_ok=True)
        copy = self._place / f"{name}-{_digest(content)}"
        copy.write_bytes(content)
        self._copies[name] = copy


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


class Loader(SourceFileLoader):
    """Loads a module from its copy, as if that were its file."""

    def __init__(self, name: str, path: str, content: bytes) -> None:
        super().__init__(name, path)
        self._content = content

    def get_data(self, path: str) -> bytes:  # type: ignore[explicit-override]  # typing.override came with 3.12
        """The copy, for the module's own path."""
        return self._content if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> dict[str, float]:  # type: ignore[explicit-override]  # as above
        """Raises OSError: compiled code beside the file is not that of the copy."""
        raise OSError(path)


def _is_own(origin: str | None) -> bool:
    return origin is not None and not is_installed(origin)


class Finder:
    """Finds what the others find, and of that which was changed its copy."""

    def __init__(
        self,
        kept: PinnedCopies,
        rule: Changed,
        *,
        tell: Callable[[str], None],
        withdraw: Callable[[str], None],
        refuse: Callable[[RefusalReason, str], None],
    ) -> None:
        self._kept, self._rule = kept, rule
        self._tell, self._withdraw, self._refuse = tell, withdraw, refuse

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """As ``importlib.abc.MetaPathFinder`` has it."""
        if name.partition(".")[0] in isolation.PACKAGES:
            return None
        found = self._of_others(name, path, target)
        if found is None:
            return self._removed(name, path)
        if type(found.loader) is SourceFileLoader and _is_own(found.origin):
            self._look(found, Path(found.loader.path))
        return found

    def _of_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            ask = getattr(finder, "find_spec", None)
            if finder is self or ask is None:
                continue
            found: ModuleSpec | None = ask(name, path, target)
            if found is not None:
                return found
        return None

    def _look(self, spec: ModuleSpec, path: Path) -> None:
        """Keep what is there, or let ``spec`` load what was kept."""
        try:
            content = path.read_bytes()
            kept = self._kept.of(path)
            if kept == content:
                return
            changed = self._kept.differs(path, content)
            if changed and self._rule is Changed.REFUSED:
                self._refuse(RefusalReason.MODULE_CHANGED, REFUSED.format(path=path))
            if kept is not None and self._rule is Changed.AS_KEPT:
                self._load_kept(spec, path, kept)
                return
            if changed:  # before it is kept: a kill in between must not hide it
                self._say_taken_up(path)
            self._kept.keep(path, content)
        except OSError:
            return  # a full disk keeps nothing, and costs no training

    def _say_taken_up(self, path: Path) -> None:
        """What is saved was made with another text, unless nothing is."""
        if self._rule is Changed.NOTHING_SAVED:
            self._tell(TAKEN_UP.format(path=path))
            return
        accepted = self._rule is Changed.AS_IT_IS
        why = CHANGED_IN_THE_MIDDLE if accepted else CHANGED_AND_LOST
        self._withdraw(why.format(path=path))

    def _load_kept(self, spec: ModuleSpec, path: Path, content: bytes) -> None:
        spec.loader = Loader(spec.name, str(path), content)
        show_as_kept(str(path), content)
        self._tell(CHANGED.format(path=path))

    def _removed(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """A module whose file is gone, of which there is a copy."""
        for place in _places(name, sys.path if path is None else path):
            content = None if self._rule in ACCEPTED else self._kept.of(place)
            if content is None:
                continue
            if self._rule is Changed.REFUSED:
                self._refuse(RefusalReason.MODULE_CHANGED, REFUSED.format(path=place))
            package = place.name == "__init__.py"
            spec = importlib.util.spec_from_file_location(
                name,
                place,
                loader=Loader(name, str(place), content),
                submodule_search_locations=[str(place.parent)] if package else None,
            )
            show_as_kept(str(place), content)
            self._tell(CHANGED.format(path=place))
            return spec
        return None


def _places(name: str, directories: Sequence[str]) -> Iterator[Path]:
    """Where the source of a module would lie, as ``PathFinder`` looks for it."""
    last = name.rpartition(".")[2]
    for directory in directories:
        place = Path(directory).absolute() / last
        yield place / "__init__.py"
        yield place.with_name(f"{last}.py")
