"""Files that a loop writes past Python (HDF5, TensorFlow's checkpoints), seen by what is
in their directory before and after."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from trainers.files.written_files import WrittenFiles, stamp_of

STATE = "checkpoint"
"""TensorFlow's list of the checkpoints in a directory; it is written after them."""


@contextlib.contextmanager
def natively(written: WrittenFiles, path: str) -> Iterator[None]:
    """In here ``path``, or files that begin with it, are written."""
    place = Path(os.path.realpath(path))
    before = _stamps(place)
    kept = {one: written.originals.keep(one) for one in _overwritten(place, before)}
    try:
        yield
    finally:
        with contextlib.suppress(OSError), written.unheard():
            _notice(written, place, before, kept)


def _notice(
    written: WrittenFiles,
    place: Path,
    before: dict[str, tuple[int, int]],
    kept: dict[str, str | None],
) -> None:
    after = _stamps(place)
    changed = [one for one, stamp in after.items() if before.get(one) != stamp]
    state = str(place.with_name(STATE))
    if any(one.endswith(".index") for one in changed) and state not in changed:
        changed.append(state)  # it comes next
    for one in changed:
        known = one in written.before.files
        if not written.is_watched(one):
            continue
        written.notice(one, before.get(one), appends=False, native=True)
        if one in before and not known:
            written.has_original(one, kept.get(one))


def _stamps(place: Path) -> dict[str, tuple[int, int]]:
    """Size and time of what its names are, and of the list beside them."""
    try:
        names = os.listdir(place.parent)  # noqa: PTH208  # names are enough
    except OSError:
        return {}
    wanted = (n for n in names if n.startswith(place.name) or n == STATE)
    paths = (str(place.with_name(name)) for name in wanted)
    return {one: stamp for one in paths if (stamp := stamp_of(one)) is not None}


def _overwritten(place: Path, before: dict[str, tuple[int, int]]) -> list[str]:
    """What is sure to be written anew."""
    names = str(place), str(place.with_name(STATE))
    return [one for one in names if one in before]
