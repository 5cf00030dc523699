"""Seeds that look like the clock: another number in each attempt of a run.

By its value alone a seed is taken for the clock only where hardly any number that a
person would write looks so. What was cut to a few digits is found by the script's source
instead (``seed_source``).
"""

import datetime as dt

DAY_NS = 24 * 3600 * 10**9
UNITS_NS = (10**9, 10**6, 10**3, 1)
"""Seconds, milliseconds, microseconds, nanoseconds."""
CUT_TO = (2**32, 2**32 - 1, 2**31, 2**31 - 1)
"""What seeds are cut to most often: NumPy takes no larger ones."""
CUT_WITHIN_NS = {10**6: 6 * 10**9, 10**3: 10**8, 1: 2 * 10**5}
"""How long ago the clock may have been read, by its unit, where the number was cut: a
thousandth of all numbers at most look so."""
LONGEST = 64
"""Bits of the clock in nanoseconds, and some."""
LEAST_CUT = 2**28
"""Smaller ones are left to the source: 42, 20240101 and 123456789 are among them."""
STAMPS = {14: "%Y%m%d%H%M%S", 12: "%Y%m%d%H%M"}
"""A date and a time as one number, by its digits."""
STAMP_WITHIN = dt.timedelta(days=2)
"""In whichever time zone."""


def looks_like_clock(seed: object, *, now_ns: int) -> bool:
    """Whether ``seed`` is most likely the time of now; ``now_ns``: since 1970."""
    number = _number(seed)
    if number is None or number.bit_length() > LONGEST:
        return False
    return (
        any(abs(number * unit - now_ns) <= DAY_NS for unit in UNITS_NS)
        or (number >= LEAST_CUT and _is_cut(number, now_ns=now_ns))
        or _is_stamp(number, now_ns=now_ns)
    )


def _number(seed: object) -> int | None:
    if isinstance(seed, int):
        return seed
    try:
        return int(float(seed))  # type: ignore[arg-type]  # whatever is none raises
    except (TypeError, ValueError, OverflowError):
        return None


def _is_cut(number: int, *, now_ns: int) -> bool:
    for unit, within_ns in CUT_WITHIN_NS.items():
        for size in CUT_TO:
            if number < size and (now_ns // unit - number) % size <= within_ns // unit:
                return True
    return False


def _is_stamp(number: int, *, now_ns: int) -> bool:
    form = STAMPS.get(len(str(number)) if number > 0 else 0)
    if form is None:
        return False
    try:
        said = dt.datetime.strptime(str(number), form).replace(tzinfo=dt.UTC)
    except ValueError:
        return False
    now = dt.datetime.fromtimestamp(now_ns / 1e9, tz=dt.UTC)
    return abs(said - now) <= STAMP_WITHIN
