"""The directory where JAX keeps what XLA compiled.

It is the attempt's own: JAX reads from it what was verified when the attempt began. It
writes in place, so that a kill, or a full disk, leaves a part of an entry there; it warns
of that and compiles.
"""

from pathlib import Path

from jax._src import compilation_cache

SUFFIX = "-cache"
"""``jax._src.lru_cache._CACHE_SUFFIX``."""


class JaxFiles:
    """What lies in ``place``."""

    def __init__(self, place: Path) -> None:
        """Make the directory. Raises OSError."""
        place.mkdir(mode=0o700, exist_ok=True)
        self._place = place
        self._torn: dict[str, int] = {}
        """Sizes of those that were not whole."""

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
