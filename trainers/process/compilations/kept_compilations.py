"""The compilations of this attempt: taken from earlier ones, and kept for later ones.

Between XLA's cache and the store on disk stand copies: a framework reads and writes in a
place of the attempt's own, and a thread of ours carries what is new to the store. So a
full disk, or one that fails, costs the next attempt a compilation, and this one nothing.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, Protocol

from trainers.process.attempt_reporting import Attempt, rss_bytes
from trainers.process.compilations.compilation_key import key_of, variables
from trainers.process.compilations.compilation_store import CompilationStore
from trainers.process.environment import framework_versions
from trainers.process.script import isolation

LOOK_SECONDS = 1.0
"""How often the thread looks for what is new."""
LAST_SECONDS = 30.0
"""So long the end of the script waits for the thread's last look."""
SHARE = 4
"""One part in so many of what a memory limit leaves may be filled."""
TF_FLAGS = "TF_XLA_FLAGS"
TF_DIRECTORY = "--tf_xla_persistent_cache_directory"
JAX_PLACE = "compilations"
"""In the directory of the attempt."""

USED = (
    "what XLA compiled in an earlier attempt is used again ({count} of its compilations);"
    " what TensorFlow prints of text-format and of machine features while it reads them"
    " means nothing"
)
DROPPED = (
    "the attempt before went by what XLA had compiled earlier and ended before it was seen"
    " to make a step: that is dropped, and this attempt compiles anew"
)
NOT_KEPT = "{}: what XLA compiles here is not kept for later attempts"
CHANGED = (
    "settings of the environment or of the framework were changed after it had begun to"
    " compile"
)
SLOW = "the disk did not take it within {:.0f} s of the script's end"


class CompiledFiles(Protocol):
    """Where a framework reads and writes what was compiled.

    What is raised is the framework's own to choose.
    """

    def room_bytes(self) -> int | None:
        """How much may be put there; None: nobody knows."""

    def settings(self) -> list[str]:
        """What decides it in this process, beside the environment."""

    def names(self) -> list[str]:
        """Of what lies there."""

    def read(self, name: str) -> bytes | None:
        """Its content; None: it is not whole."""

    def write(self, name: str, content: bytes) -> None:
        """Let the framework find it."""

    def clear(self) -> None:
        """The framework finds nothing any more; not while it compiles."""


class KeptCompilations:
    """Those of one attempt, of each framework that the script imports.

    Whatever goes wrong here is a notice: no import, no step and no end fails by it.
    """

    def __init__(
        self, attempt: Attempt, environment: MutableMapping[str, str], directory: str
    ) -> None:
        """Before the script begins; ``environment``: that of this process.
        ``directory``: where compilations of the job are kept."""
        self._attempt = attempt
        self._environment = environment
        self._directory = Path(directory)
        self._jax_place = attempt.paths.root / JAX_PLACE
        self._places: list[_Place] = []
        self._traced: _Place | None = None
        self._has_traced = False
        self._own_flags = ""
        # What touches the store holds it: one framework's is filled while the thread
        # keeps another's. Reentrant: to fill may trace, too.
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def jax_imported(self, _jax: Any) -> None:
        """Nothing is compiled yet. Who has a cache of their own keeps it."""
        with self._or_told():
            module = isolation.load("trainers.backends.jax.jax_compiled_files")
            if module.is_decided(self._environment):
                return
            self._clear_earlier()
            if self.begin("jax", module.JaxFiles(self._jax_place)):
                module.keep_in(self._jax_place, self._environment)

    def _clear_earlier(self) -> None:
        """Copies that attempts of the run left behind that were killed."""
        for place in self._attempt.paths.root.parent.glob(f"*/{JAX_PLACE}"):
            if place != self._jax_place:
                shutil.rmtree(place, ignore_errors=True)

    def tensorflow_imported(self, _tensorflow: Any) -> None:
        """TensorFlow reads its flags when it looks for devices; what it finds in the
        cache is put there when it traces for the first time: what the script sets until
        then is part of the key."""
        with self._or_told():
            flags = self._environment.get(TF_FLAGS, "")
            known = framework_versions.is_known(framework_versions.here())
            if TF_DIRECTORY in flags or not known:
                return  # their own; or nobody has tried what that version does
            module = isolation.load("trainers.backends.tensorflow.compiled_files")
            names = isolation.load(
                "trainers.backends.tensorflow.functions.traced_names"
            )
            files = module.TensorFlowFiles()
            if names.install(lambda: self.traces(files)):
                self._own_flags = module.FLAGS
                self._environment[TF_FLAGS] = f"{flags} {module.FLAGS}".strip()

    def traces(self, files: CompiledFiles) -> None:
        """TensorFlow traces a function, which XLA may compile next."""
        if os.getpid() != self._process:
            return  # forked: the store is the parent's
        with self._or_told(), self._lock:
            if not self._has_traced:
                self._has_traced = True
                self._traced = self.begin("tensorflow", files)
            elif self._traced is not None:
                self._traced.clear_if_changed()

    def begin(self, framework: str, files: CompiledFiles) -> "_Place | None":
        """Let ``framework`` find what is kept, and keep what it compiles from here on.
        None: it is not; that was told."""
        begun: _Place | None = None
        with self._or_told(), self._lock:
            place = self._place(framework, files)
            taken = place.fill(_least(files.room_bytes(), self._left_bytes()))
            if place.dropped:
                self._attempt.notice(DROPPED)
            if taken:
                self._attempt.notice(USED.format(count=taken))
            self._places.append(place)
            self._start()
            begun = place
        return begun  # noqa: RET504  # an error ends the block alone

    def _place(self, framework: str, files: CompiledFiles) -> "_Place":
        directive = self._attempt.directive
        key = key_of(framework, directive, self._persons(), files.settings())
        quota_bytes = directive.compilation_quota_bytes
        store = CompilationStore(self._directory, key=key, quota_bytes=quota_bytes)
        return _Place(
            files,
            store,
            lambda: [*variables(self._persons(), one_model=True), *files.settings()],
        )

    def _persons(self) -> dict[str, str]:
        """The environment without what we add for TensorFlow, maybe after JAX began."""
        found = dict(self._environment)
        flags = found.pop(TF_FLAGS, "").replace(self._own_flags, "").strip()
        return {**found, TF_FLAGS: flags} if flags else found

    def _left_bytes(self) -> int | None:
        """What may be filled under the attempt's own memory limit; None: it has none."""
        limit, used = self._attempt.directive.memory_limit_bytes, rss_bytes()
        if limit is None or used is None:
            return None
        return max(0, limit - used) // SHARE

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._look_until_over,
                name="trainwarden-compilations",
                daemon=True,
            )
            self._thread.start()

    def _look_until_over(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(LOOK_SECONDS)
            with self._or_told():
                self._look(is_well=is_over)

    def _look(self, *, is_well: bool) -> None:
        """Keep what is new; one entry that cannot be is told of, and left."""
        with self._lock:
            stepped = self._attempt.training.steps or self._attempt.has_stepped
            for place in self._places:
                if stepped or is_well:
                    place.proven()
                for because in place.keep_new():
                    self._tell(because)

    def ended(self) -> None:
        """The script came to its end: the thread looks once more."""
        with self._or_told():
            self._over.set()
            if self._thread is not None:
                self._thread.join(LAST_SECONDS)
                if self._thread.is_alive():
                    self._tell(SLOW.format(LAST_SECONDS))
                    return  # it may still read there
            shutil.rmtree(self._jax_place, ignore_errors=True)

    @contextlib.contextmanager
    def _or_told(self) -> Iterator[None]:
        """What goes wrong in it costs later attempts a compilation, and this one nothing:
        errors of the disk, of TensorFlow's file systems, of memory."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, training goes on
            with contextlib.suppress(Exception):
                self._tell(_because_of(error))

    def _tell(self, because: str) -> None:
        sentence = NOT_KEPT.format(because)
        if self._attempt.is_news("compilations", sentence):
            self._attempt.notice(sentence)


class _Place:
    """One framework's files, and the store that they are of."""

    def __init__(
        self,
        files: CompiledFiles,
        store: CompilationStore,
        settings: Callable[[], list[str]],
    ) -> None:
        self._files = files
        self._store = store
        self._settings = settings
        self._settings_at_first = settings()
        self._known: set[str] = set()
        self._is_proven = False
        self._is_other = False
        self._is_clear = False

    @property
    def dropped(self) -> bool:
        return self._store.dropped

    def fill(self, most_bytes: int | None) -> int:
        """Let the framework find what is in the store: how many. Where that fails it
        finds none; raises what it failed by."""
        try:
            for name, content in self._store.take(most_bytes):
                self._files.write(name, content)
                self._known.add(name)
        except Exception:
            self._clear()
            self.proven()  # nothing goes by them
            raise
        return len(self._known)

    def proven(self) -> None:
        if self._is_proven:
            return
        self._is_proven = True
        with contextlib.suppress(OSError):  # the next attempt compiles anew
            self._store.proven()

    def has_changed(self) -> bool:
        """Whether it may be compiled otherwise now than the key says; once, for good."""
        if not self._is_other:
            self._is_other = self._settings() != self._settings_at_first
        return self._is_other

    def clear_if_changed(self) -> None:
        """Before the framework compiles, in the thread that will: while another does so
        it may be about to read what is cleared."""
        if self.has_changed() and not self._is_clear:
            self._clear()

    def _clear(self) -> None:
        self._is_clear = True
        self._files.clear()

    def keep_new(self) -> list[str]:
        """Carry to the store what is new; why that was not possible."""
        if self.has_changed():
            return [CHANGED]
        new = [name for name in self._files.names() if name not in self._known]
        reasons: list[str] = []
        for name in new:
            try:
                because = self._keep(name)
            except Exception as error:  # noqa: BLE001  # as above
                self._known.add(name)  # once is enough: the disk may be full for long
                because = _because_of(error)
            reasons += [because] if because else []
        return reasons

    def _keep(self, name: str) -> str | None:
        content = self._files.read(name)
        if content is None:
            return None
        self._known.add(name)
        return self._store.put(name, content)


def _because_of(error: Exception) -> str:
    """In a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first, _, _ = str(error).partition("\n")
    return first or type(error).__name__


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
