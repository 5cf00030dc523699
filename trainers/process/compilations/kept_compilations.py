"""The compilations of this attempt: taken from earlier ones, and kept for later ones.

Between XLA's cache and the store on disk stand copies: a framework reads and writes in a
place of the attempt's own, and a thread of ours carries what is new to the store. So a
full disk, or one that fails, costs the next attempt a compilation, and this one nothing.
"""

import shutil
import threading
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Protocol

from trainers.process.attempt_reporting import Attempt
from trainers.process.compilations.compilation_key import key_of
from trainers.process.compilations.compilation_store import CompilationStore
from trainers.process.environment import framework_versions
from trainers.process.script import isolation

LOOK_SECONDS = 1.0
"""How often the thread looks for what is new."""
TF_FLAGS = "TF_XLA_FLAGS"
TF_DIRECTORY = "--tf_xla_persistent_cache_directory"
JAX_DIRECTORY = "JAX_COMPILATION_CACHE_DIR"
JAX_ENABLE = "JAX_ENABLE_COMPILATION_CACHE"
JAX_VARIABLES = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
}
"""Whatever was compiled is kept, however small; XLA keeps nothing beside it, which nobody
would verify, and of which the directory would be part of each key."""
JAX_PLACE = "compilations"
"""In the directory of the attempt."""

USED = (
    "what XLA compiled in an earlier attempt is used again ({count} of its compilations);"
    " what TensorFlow prints of text-format and of machine features while it reads them"
    " means nothing"
)
DROPPED = (
    "the attempt before went by what XLA had compiled earlier and ended before its first"
    " step: that is dropped, and this attempt compiles anew"
)
NOT_KEPT = "{}: what XLA compiles here is not kept for later attempts"


class CompiledFiles(Protocol):
    """Where a framework reads and writes what was compiled."""

    def names(self) -> list[str]:
        """Of what lies there. Raises OSError."""

    def read(self, name: str) -> bytes | None:
        """Its content; None: it is not whole. Raises OSError."""

    def write(self, name: str, content: bytes) -> None:
        """Let the framework find it. Raises OSError."""


class KeptCompilations:
    """Those of one attempt, of each framework that the script imports."""

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
        self._tell_jax()

    def _tell_jax(self) -> None:
        """JAX reads them when it is imported. Who has a cache of their own keeps it."""
        if JAX_DIRECTORY in self._environment or JAX_ENABLE in self._environment:
            return
        self._environment[JAX_DIRECTORY] = str(self._jax_place)
        for name, value in JAX_VARIABLES.items():
            self._environment.setdefault(name, value)

    def jax_imported(self, _jax: Any) -> None:
        """Nothing is compiled yet."""
        if self._environment.get(JAX_DIRECTORY) != str(self._jax_place):
            return
        self._clear_earlier()
        key = key_of("jax", self._attempt.directive, self._environment)
        module = isolation.load("trainers.backends.jax.compiled_files")
        self._begin(key, lambda: module.JaxFiles(self._jax_place))

    def _clear_earlier(self) -> None:
        """Copies that attempts of the run left behind that were killed."""
        for place in self._attempt.paths.root.parent.glob(f"*/{JAX_PLACE}"):
            if place != self._jax_place:
                shutil.rmtree(place, ignore_errors=True)

    def tensorflow_imported(self, _tensorflow: Any) -> None:
        """TensorFlow reads its flags when it compiles for the first time."""
        flags = self._environment.get(TF_FLAGS, "")
        known = framework_versions.is_known(framework_versions.here())
        if TF_DIRECTORY in flags or not known:
            return  # their own; or nobody has tried what that version does
        key = key_of("tensorflow", self._attempt.directive, self._environment)
        module = isolation.load("trainers.backends.tensorflow.compiled_files")
        if self._begin(key, module.TensorFlowFiles):
            self._environment[TF_FLAGS] = f"{flags} {module.FLAGS}".strip()
            isolation.load("trainers.backends.tensorflow.traced_names").install()

    def _begin(self, key: str, files: Any) -> bool:
        """Whether what is compiled from here on is kept."""
        directive = self._attempt.directive
        store = CompilationStore(
            self._directory, key=key, quota_bytes=directive.compilation_quota_bytes
        )
        try:
            place = _Place(files(), store)
            taken = place.fill()
        except OSError as error:
            self._attempt.notice(NOT_KEPT.format(error.strerror or error))
            return False
        if store.dropped:
            self._attempt.notice(DROPPED)
        if taken:
            self._attempt.notice(USED.format(count=taken))
        if not self._places:
            self._start()
        self._places.append(place)
        return True

    def _start(self) -> None:
        threading.Thread(
            target=self._look_for_ever, name="trainwarden-compilations", daemon=True
        ).start()

    def _look_for_ever(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Keep what is new; one entry that cannot be is told of, and left."""
        if self._attempt.training.steps:
            self.proven()
        for place in list(self._places):
            for because in place.keep_new():
                sentence = NOT_KEPT.format(because)
                if self._attempt.is_news("compilations", sentence):
                    self._attempt.notice(sentence)

    def ended(self) -> None:
        """The script came to its end."""
        self.look()
        self.proven()
        shutil.rmtree(self._jax_place, ignore_errors=True)

    def proven(self) -> None:
        """Training goes on with them."""
        for place in list(self._places):
            place.proven()


class _Place:
    """One framework's files, and the store that they are of."""

    def __init__(self, files: CompiledFiles, store: CompilationStore) -> None:
        self._files = files
        self._store = store
        self._known: set[str] = set()
        self._is_proven = False

    def fill(self) -> int:
        """Let the framework find what is in the store: how many. Raises OSError."""
        taken = self._store.take()
        for name, content in taken.items():
            self._files.write(name, content)
        self._known = set(taken)
        return len(taken)

    def proven(self) -> None:
        if self._is_proven:
            return
        self._is_proven = True
        try:
            self._store.proven()
        except OSError:
            return  # the next attempt compiles anew

    def keep_new(self) -> list[str]:
        """Carry to the store what is new; why that was not possible."""
        try:
            new = [name for name in self._files.names() if name not in self._known]
        except OSError as error:
            return [error.strerror or str(error)]
        reasons: list[str] = []
        for name in new:
            try:
                because = self._keep(name)
            except OSError as error:
                self._known.add(name)  # once is enough: the disk may be full for long
                because = error.strerror or str(error)
            reasons += [because] if because else []
        return reasons

    def _keep(self, name: str) -> str | None:
        content = self._files.read(name)
        if content is None:
            return None
        self._known.add(name)
        return self._store.put(name, content)
