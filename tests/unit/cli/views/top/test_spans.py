"""Lines of a screen: as wide as they may be, and nothing in them to obey."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from supervisor.cli.views.top.spans import (
    Span,
    Tone,
    cropped_line,
    one_line,
    padded_text,
    painted,
    text_of,
)

WIDTHS = st.integers(0, 30)


@given(st.text().map(one_line), WIDTHS, st.booleans())
def test_padding_is_exact(text: str, width: int, right: bool) -> None:  # noqa: FBT001
    """In cells, which wide characters take two of."""
    assert cell_len(padded_text(text, width, right=right)) == width


@given(st.lists(st.text().map(one_line).map(Span)), WIDTHS)
def test_a_cropped_line_fits(spans: list[Span], width: int) -> None:
    """And one that fits stays as it is."""
    line = tuple(spans)
    cropped = text_of(cropped_line(line, width))
    assert cell_len(cropped) <= width
    if cell_len(text_of(line)) <= width:
        assert cropped == text_of(line)


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    """What is chosen is seen without them, too."""
    line = (Span("a", Tone.BAD), Span("b", Tone.CHOSEN), Span("c"))
    assert painted(line, colour=True) == "\x1b[1;31ma\x1b[0m\x1b[7mb\x1b[0mc"
    assert painted(line, colour=False) == "a\x1b[7mb\x1b[0mc"
