"""Sizes, durations and times as people write them, and back."""

import math
import re
from datetime import datetime

_SIZES = {
    "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_DURATIONS = {
    "ms": 0.001,
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_TIMESPANS = {
    "us": 1e-6, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
    "w": 604800.0, "month": 2629800.0, "y": 31557600.0,
}  # fmt: skip
"""As systemd prints time spans: systemd.time(7)."""
_QUANTITY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)\s*")

SIZE_EXPECTED = "a size such as 600MiB or 20GiB"
DURATION_EXPECTED = "a duration such as 30s, 5min or 2h"


def _quantity(text: str, units: dict[str, float] | dict[str, int]) -> float | None:
    match = _QUANTITY.fullmatch(text)
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        return None
    return float(match[1]) * factor


def parse_size(text: str) -> int:
    """``600MiB`` in bytes. Raises ValueError, saying what was expected."""
    size = _quantity(text, _SIZES)
    if size is None or size < 1:
        message = f"expected {SIZE_EXPECTED}, got {text!r}"
        raise ValueError(message)
    return int(size)


def parse_duration(text: str) -> float:
    """``5min`` in seconds. Raises ValueError, saying what was expected."""
    seconds = _quantity(text, _DURATIONS)
    if not seconds:
        message = f"expected {DURATION_EXPECTED}, got {text!r}"
        raise ValueError(message)
    return seconds


def parse_timespan(text: str) -> float | None:
    """``3min 20s``, as systemd prints it, in seconds (``infinity``: infinite); None: it
    is no time span."""
    if text == "infinity":
        return math.inf
    parts = [_quantity(part, _TIMESPANS) for part in text.split()]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def format_size(size: float) -> str:
    """Bytes for people: ``612 MiB``, ``1.50 GiB``."""
    for unit, factor in _UNITS:
        if abs(size) >= factor:
            value = size / factor
            return f"{value:.2f} {unit}" if unit == "GiB" else f"{value:.0f} {unit}"
    return f"{size:.0f} bytes"


def sizes_apart(one: int, other: int) -> tuple[str, str]:
    """Both for people, in units that show which is more: ``7816 KiB`` beside ``8192 KiB``."""
    found = format_size(one), format_size(other)
    if one == other or found[0] != found[1]:
        return found
    for unit, factor in _UNITS[1:]:
        told = f"{one / factor:.0f} {unit}", f"{other / factor:.0f} {unit}"
        if told[0] != told[1]:
            return told
    return f"{one} bytes", f"{other} bytes"


def format_loss(loss: float) -> str:
    """A loss as Keras prints it: four digits after the point, or an exponent where those
    would not tell it, or the number be long."""
    plain = loss == 0 or 1e-3 <= abs(loss) < 1e6
    return f"{loss:.4f}" if plain else f"{loss:.4e}"


NOT_FINITE = "NaN or infinite"


def format_loss_at(
    loss: str | None, *, of_step: int | None, step: int | None, shown: int | None = None
) -> str:
    """A loss with the step that it is of, where that is not the one beside it; empty:
    there is none. ``loss``: as it is written; None: not known, or no finite number.
    ``of_step``: None: not known. ``shown``: what is written beside it for ``step``, such as
    that in the epoch: then how many steps ago it was, since "at step" is the step of the
    run, wherever it is said."""
    if loss is None and of_step is None:
        return ""
    written = NOT_FINITE if loss is None else loss
    if of_step is None or step is None or of_step == step:
        return written
    if shown in {None, step} or of_step > step:
        return f"{written} at step {of_step}"
    return f"{written} ({counted(step - of_step, 'step')} ago)"


def format_step(seconds: float) -> str:
    """The time of a step for people: ``27 ms``, ``1.4 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else format_duration(seconds)


def format_duration(seconds: float) -> str:
    """Seconds for people: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def shortened(text: str, most: int) -> str:
    """``text`` in at most so many characters, ended at a word where it is too long."""
    whole = text.strip()
    if len(whole) <= most:
        return whole
    cut = whole[: most - 2]
    return f"{cut.rpartition(' ')[0] or cut} …"


def local_time(utc: str) -> str:
    """A time (ISO 8601, UTC) as the clock on the wall has it: ``2026-01-31 13:00:00``."""
    return datetime.fromisoformat(utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock_time(moment: datetime) -> str:
    """A moment (with its zone) as the clock on the wall has it, without the day:
    ``13:00:00``."""
    return moment.astimezone().strftime("%H:%M:%S")


def counted(count: int, what: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
