"""The directory where JAX keeps what XLA compiled.

It is the attempt's own: JAX reads from it what was verified when the attempt began. It
writes in place, so that a kill, or a full disk, leaves a part of an entry there; it warns
of that and compiles.
"""

import functools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jax._src import compilation_cache

SUFFIX = "-cache"
"""``jax._src.lru_cache._CACHE_SUFFIX``."""
DIRECTORY = "jax_compilation_cache_dir"
ENABLED = "jax_enable_compilation_cache"
SETTINGS: dict[str, Any] = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_persistent_cache_enable_xla_caches": "none",
}
"""Whatever was compiled is kept, however small; XLA keeps nothing beside it, which nobody
would verify, and of which the directory would be part of each key."""
FREE_FOR_EACH = 10
"""So many times what is copied must be free: snapshots need the disk more than we do."""


def is_decided(environment: Mapping[str, str]) -> bool:
    """Whether the person has a cache of their own, or wants none."""
    names = {DIRECTORY.upper(), ENABLED.upper()}
    return bool(names & set(environment) or getattr(_config(), DIRECTORY))


def keep_in(place: Path, environment: Mapping[str, str]) -> None:
    """Let JAX keep there what it compiles: in this process, not in its children.

    What a person set of the rest in ``environment`` stays. A script that names a
    directory of its own later gets the settings back that were there before.
    """
    config = _config()
    original = config.update
    before = {
        name: getattr(config, name)
        for name in SETTINGS
        if name.upper() not in environment
    }
    for name in before:
        original(name, SETTINGS[name])
    original(DIRECTORY, str(place))

    @functools.wraps(original)
    def update(name: str, value: Any) -> None:
        before.pop(name, None)  # the script's own from here on
        if name == DIRECTORY and value != str(place):
            for changed in list(before):
                original(changed, before.pop(changed))
        original(name, value)

    config.update = update


def _config() -> Any:
    return jax.config


class JaxFiles:
    """What lies in ``place``."""

    def __init__(self, place: Path) -> None:
        """Make the directory. Raises OSError."""
        place.mkdir(mode=0o700, exist_ok=True)
        self._place = place
        self._torn: dict[str, int] = {}
        """Sizes of those that were not whole."""

    def room_bytes(self) -> int:
        """How much may be copied there. Raises OSError."""
        return shutil.disk_usage(self._place).free // FREE_FOR_EACH

    def settings(self) -> list[str]:
        """None: JAX's own key has them."""
        return []

    def names(self) -> list[str]:
        """Of compilations. Raises OSError."""
        return [one.name for one in self._place.glob(f"*{SUFFIX}")]

    def read(self, name: str) -> bytes | None:
        """The compilation ``name``; None: not yet whole, or never. Raises OSError."""
        path = self._place / name
        if self._torn.get(name) == path.stat().st_size:
            return None
        content = path.read_bytes()
        try:
            compilation_cache.decompress_executable(content)
        except Exception:  # noqa: BLE001  # of whichever library it was compressed by
            self._torn[name] = len(content)
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Let JAX find ``content``. Raises OSError."""
        (self._place / name).write_bytes(content)

    def clear(self) -> None:
        """JAX finds nothing any more, and compiles. Raises OSError."""
        for name in self.names():
            (self._place / name).unlink(missing_ok=True)
