"""Notices that are given once a run, whichever attempt meets their reason first."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from supervisor.wire.paths import AttemptPaths


def memo(paths: AttemptPaths) -> Path:
    """What was said in this run, a line each: beside its attempts."""
    return paths.root.parent.parent / "told"


def once(path: Path, notice: Callable[[str], None]) -> Callable[[str], None]:
    """``notice`` for a sentence that is not in ``path`` yet.

    Where nothing can be noted there, it is said again: better twice than never.
    """

    def tell(sentence: str) -> None:
        line = " ".join(sentence.split())
        if line in _lines(path):
            return
        notice(sentence)
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return tell


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
