"""Sizes, durations and times as people write them."""

import math
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.units import (
    clock_time,
    format_duration,
    format_loss,
    format_loss_at,
    format_size,
    format_step,
    local_time,
    parse_duration,
    parse_size,
    parse_timespan,
    shortened,
    sizes_apart,
)


@given(st.text(), st.integers(min_value=3, max_value=40))
def test_what_is_too_long_is_cut(text: str, most: int) -> None:
    """It begins as it did, fits, and says that there was more."""
    cut = shortened(text, most)
    assert len(cut) <= most
    assert cut == text.strip() or cut.endswith(" …")
    assert text.strip().startswith(cut.removesuffix(" …"))


def test_words_stay_whole() -> None:
    """As long as there are any."""
    assert shortened("one two three", 10) == "one two …"
    assert shortened("onetwothree", 10) == "onetwoth …"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("600MiB", 600 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("2GB", 2_000_000_000),
        (" 7b ", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """Binary and decimal units are told apart, in any case."""
    assert parse_size(text) == parse_size(text.upper()) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5min", 300), ("1.5h", 5400), ("250ms", 0.25)]
)
def test_durations(text: str, seconds: float) -> None:
    """Durations are seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3min", 180.0),
        ("1h 1min 1.5s", 3661.5),
        ("250ms", 0.25),
        ("infinity", math.inf),
        ("", None),
        ("3min soon", None),
        ("0", None),
    ],
)
def test_time_spans_of_systemd(text: str, seconds: float | None) -> None:
    """As ``systemctl show`` prints them; anything else is not known."""
    assert parse_timespan(text) == seconds


@pytest.mark.parametrize("text", ["", "600", "MiB", "-1s", "0s", "0MiB", "5 parsec"])
def test_what_is_no_quantity(text: str) -> None:
    """A number without a unit, or nothing, is refused with an example."""
    with pytest.raises(ValueError, match="such as"):
        parse_size(text)
    with pytest.raises(ValueError, match="such as"):
        parse_duration(text)


@given(st.text(max_size=30))
def test_hostile_text_raises_only_value_error(text: str) -> None:
    """Any text is either a positive quantity or a ValueError."""
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text) > 0
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("size", "text"),
    [(5, "5 bytes"), (2048, "2 KiB"), (600 * 2**20, "600 MiB"), (2**31, "2.00 GiB")],
)
def test_sizes_for_people(size: int, text: str) -> None:
    """Sizes are shown in the largest unit that leaves a number of at least one."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (12.3, "12 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    """Durations are shown in at most two units."""
    assert format_duration(seconds) == text


def test_times_are_those_of_the_clock_on_the_wall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a place that is an hour ahead of UTC in winter."""
    with monkeypatch.context() as place:
        place.setenv("TZ", "CET-1CEST")
        time.tzset()
        assert local_time("2026-01-31T12:00:00+00:00") == "2026-01-31 13:00:00"
        assert clock_time(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "13:00:00"
    time.tzset()


def test_a_step_is_told_in_milliseconds_where_it_is_short() -> None:
    """As most are."""
    assert format_step(0.0274) == "27 ms"
    assert format_step(1.44) == "1.4 s"


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (0.0, "0.0000"),
        (0.66254, "0.6625"),
        (-12.5, "-12.5000"),
        (0.000012, "1.2000e-05"),
        (5911263867199834554368.0, "5.9113e+21"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_a_loss(loss: float, text: str) -> None:
    """Of any size in a column."""
    assert format_loss(loss) == text


@pytest.mark.parametrize(
    ("loss", "of_step", "step", "shown", "text"),
    [
        ("0.5", 30, 30, None, "0.5"),
        ("0.5", None, 30, None, "0.5"),
        ("0.5", 30, None, None, "0.5"),
        ("0.5", 22, 30, None, "0.5 at step 22"),
        ("0.5", 22, 30, 10, "0.5 (8 steps ago)"),
        ("0.5", 29, 30, 30, "0.5 at step 29"),
        ("0.5", 44, 30, 10, "0.5 at step 44"),
        ("0.5", 20, 30, 10, "0.5 (10 steps ago)"),
        ("0.5", 44, 30, None, "0.5 at step 44"),
        (None, 44, 44, None, "NaN or infinite"),
        (None, 44, 45, None, "NaN or infinite at step 44"),
        (None, None, 45, None, ""),
    ],
)
def test_a_loss_has_its_own_step(
    loss: str | None,
    of_step: int | None,
    step: int | None,
    shown: int | None,
    text: str,
) -> None:
    """Where it is not the one beside it, which the reader would take it for."""
    assert format_loss_at(loss, of_step=of_step, step=step, shown=shown) == text


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (7816 * 2**10, 8 * 2**20, ("7816 KiB", "8192 KiB")),
        (3 * 2**20, 8 * 2**20, ("3 MiB", "8 MiB")),
        (8 * 2**20, 8 * 2**20, ("8 MiB", "8 MiB")),
        (2**30, 2**30 + 2**20, ("1024 MiB", "1025 MiB")),
        (2**30, 2**30 + 1, ("1073741824 bytes", "1073741825 bytes")),
    ],
)
def test_sizes_beside_each_other_show_which_is_more(
    one: int, other: int, said: tuple[str, str]
) -> None:
    """However near they are."""
    assert sizes_apart(one, other) == said


@given(st.integers(0, 2**50), st.integers(0, 2**50))
def test_unlike_sizes_are_unlike_in_words(one: int, other: int) -> None:
    """And like ones alike."""
    told = sizes_apart(one, other)
    assert (told[0] == told[1]) == (one == other)
