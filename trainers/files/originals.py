"""What files held before the loop of a script first wrote to them, kept for its next run.

A loop that is followed is resumed from the script's top: what it reads there must be what
it read the first time.
"""

from pathlib import Path

from trainers.files import kept_bytes

MOST_BYTES = 64 * 2**20
"""Of all such files of one attempt."""


class Originals:
    """Copies in a directory of the attempt."""

    def __init__(self, attempt: Path) -> None:
        self._directory = attempt / "originals"
        self._room, self._count = MOST_BYTES, 0

    def keep(self, path: str) -> str | None:
        """Where a copy lies; None: it is too large, or cannot be read."""
        try:
            size = Path(path).stat().st_size
            if size > self._room:
                return None
            self._directory.mkdir(mode=0o700, exist_ok=True)
            kept = self._directory / str(self._count)
            kept_bytes.copy_of(Path(path), kept)
        except OSError:
            return None
        self._room -= size
        self._count += 1
        return str(kept)
