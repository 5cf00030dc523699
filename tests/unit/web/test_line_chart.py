"""A chart draws what it is given, in its place, and says it in words."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree.ElementTree import fromstring

from hypothesis import given
from hypothesis import strategies as st

from supervisor.web.line_chart import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Bound,
    Chart,
    Line,
    Mark,
    spread,
)
from supervisor.web.markup import render
from supervisor.web.scales import byte_unit, figure, seconds_text, ticks, time_unit


def chart(*points: tuple[float, float]) -> Chart:
    """With one curve, a limit and an incident."""
    return Chart(
        id="c",
        title="Loss",
        lines=(Line(label="loss", tone=1, segments=(points,)),),
        x=Axis(name="step"),
        y=Axis(name="loss"),
        marks=(Mark(x=2.0, label="#1", about="Incident 1"),),
        bounds=(Bound(y=9.0, label="limit 9"),),
    )


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(-1e12, 1e12)), min_size=1, max_size=30
    )
)
def test_every_point_lies_in_the_picture(points: list[tuple[float, float]]) -> None:
    """Whatever the values: it is XML, and no curve leaves its frame."""
    drawn = fromstring(render(chart(*points).draw()))  # noqa: S314  # ours
    (path,) = [one for one in drawn.iter("path") if "curve" in one.attrib["class"]]
    for x, y in re.findall(r"([-\d.]+) ([-\d.]+)", path.attrib["d"]):
        assert LEFT - 0.1 <= float(x) <= WIDTH - RIGHT + 0.1
        assert TOP - 0.1 <= float(y) <= HEIGHT - BOTTOM + 0.1


def test_a_picture_in_words() -> None:
    """For who does not see it: the ends, the extremes, limits and incidents."""
    text = render(chart((1.0, 4.0), (2.0, 1.0), (3.0, 2.0)).draw())
    words = "loss: from 4 to 2, lowest 1, highest 4. limit 9: 9. Incident 1."
    assert words in text
    assert '<th scope="row">1</th><td>4</td>' in text


def test_the_label_of_a_mark_at_the_edge_stays_in_the_picture() -> None:
    """The newest incident is where the curve ends: its line is there, its label left of it."""
    marks = (Mark(x=2.0, label="#12345", about="Incident 12345"),)
    drawn = fromstring(  # noqa: S314  # ours
        render(replace(chart((1.0, 4.0), (2.0, 1.0)), marks=marks).draw())
    )
    (mark,) = [one for one in drawn.iter("g") if one.attrib.get("class") == "mark"]
    line, text = mark.find("line"), mark.find("text")
    assert line is not None
    assert text is not None
    assert float(line.attrib["x1"]) == WIDTH - RIGHT
    half = len("#12345") * LETTER / 2
    assert float(text.attrib["x"]) + half == WIDTH


def test_labels_stand_apart() -> None:
    """Of marks that are close together the first has one, all have their line; ticks are as
    few as their figures are long."""
    marks = [Mark(x=x, label=f"#{x:.0f}", about="") for x in (9e6, 1.0, 2.0, 3.0)]
    wide = replace(chart((0.0, 4.0), (9e6, 1.0)), marks=tuple(marks))
    drawn = fromstring(render(wide.draw()))  # noqa: S314  # ours
    found = [one for one in drawn.iter("g") if one.attrib.get("class") == "mark"]
    assert [one.find("text") is None for one in found] == [False, True, True, False]
    assert all(one.find("line") is not None for one in found)
    ticks_across = [
        (float(one.attrib["x"]), one.text or "")
        for one in drawn.iter("text")
        if one.attrib.get("class") == "x-tick"
    ]
    assert len(ticks_across) >= 2
    for (left, text), (right, beside) in pairwise(ticks_across):
        assert left + LETTER * len(text) / 2 < right - LETTER * len(beside) / 2


def test_nothing_to_draw() -> None:
    """It says so."""
    assert "Nothing was measured" in render(chart().draw())


def test_round_numbers() -> None:
    """Ticks and figures as people write them."""
    assert ticks(0, 10) == [0, 5, 10]
    assert ticks(0.13, 0.41) == [0.2, 0.30000000000000004, 0.4]
    assert ticks(3, 3) == [3]
    assert byte_unit(3 * 2**30) == (2**30, "GiB")
    assert time_unit(90) == (1.0, "s")
    assert time_unit(7200) == (3600.0, "h")
    assert (figure(1234567.0), figure(0.000123456)) == ("1,234,567", "0.0001235")
    assert (seconds_text(0.0123), seconds_text(75)) == ("12.3 ms", "1 min 15 s")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=100, unique=True))
def test_a_table_is_short(values: list[float]) -> None:
    """With the first and the last of what there is."""
    shown = spread(sorted(values), 12)
    assert len(shown) <= 12
    assert (shown[0], shown[-1]) == (min(values), max(values))
