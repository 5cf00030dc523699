"""What somebody printed, as it is quoted."""

import pytest

from supervisor.core.diagnosis.result import Reason
from supervisor.core.text.plain import plain


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "\x1b[1mCUDA out of memory.\x1b[0m\ttwo\nthree",
            "CUDA out of memory.\ttwo\nthree",
        ),
        ("\x1b[1m\x1b[32m3/8\x1b[0m \x1b[K\x1b[?25l", "3/8 "),
        ("1/8 [..]\b\b\b\b\b\b\b\b2/8 [=.]\b\b\b==]", "2/8 [==]"),
        ("10 %\r100 %\r\nnext", "100 %\nnext"),
        ("long text\rshort", "shorttext"),
        ("\b\bx", "x"),
        ("\x1b]52;c;aGk=\x07read \x1b]0;title\x1b\\it", "read it"),
        ("\x1b]8;;never ended", "8;;never ended"),
        ("a\x00b\x07c\x9bd", "abcd"),
        ("cut \x1b[3", "cut 3"),
        ("one\u2028two\u2029three", "onetwothree"),
        ("\u202eexe.txt\u202c \u2066a\u2069\u200f\ufeff\u00ad", "exe.txt a"),
        ("tag \U000e0041", "tag "),
        ("half \ud800 \udcff", "half \ufffd \ufffd"),
        (
            "\u0645\u06cc\u200c\u0634\u0648\u062f \u200d é 漢 🙂",
            "\u0645\u06cc\u200c\u0634\u0648\u062f \u200d é 漢 🙂",
        ),
    ],
)
def test_quoted_text_has_no_control_characters(text: str, quoted: str) -> None:
    """Colours are left out, and a line that was written over is as it looked; nothing
    invisible turns it about or breaks it, and scripts of the world stay as they are."""
    assert plain(text) == quoted
    assert plain(quoted) == quoted
    assert Reason(text, "x").text == quoted


def test_a_line_without_an_end() -> None:
    """What goes back all the time takes no longer for it."""
    text = "x" * 500_000 + "\b\by" * 250_000
    assert len(plain(text)) == 500_000
