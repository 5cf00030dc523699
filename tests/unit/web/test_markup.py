"""Text is data, whatever stands in it."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from supervisor.web.markup import render, tag


class ParsedMarkup(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.attributes: dict[str, str | None] = {}

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= dict(attrs)

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_no_text_is_markup(text: str) -> None:
    """Neither as content nor as an attribute: there are the elements that we made."""
    seen = ParsedMarkup()
    seen.feed(render(tag("p", "x", tag("b", text), "y", title=text)))
    seen.close()
    assert seen.names == ["p", "b"]
    assert seen.attributes.keys() == {"title"}
    assert seen.text.startswith("x")
    assert seen.text.endswith("y")


def test_what_a_terminal_or_a_reader_would_obey_is_shown() -> None:
    """Control characters and changes of direction stand there as they are written."""
    assert render("a\x1b]52;c\x07\u202eb") == "a\\x1b]52;c\\x07\\u202eb"


def test_attributes_as_they_are_written() -> None:
    """None and False are left out; a number has one digit behind the point."""
    made = tag("rect", x=1.26, width=3.0, class_="a", aria_hidden=None, open=False)
    assert render(made) == '<rect x="1.3" width="3" class="a"/>'


def test_redaction_sees_every_text() -> None:
    """Content and what is read aloud, not coordinates."""
    made = tag("a", "ada", tag("b", "ada"), aria_label="ada", d="ada")
    said = render(made, redact=lambda text: text.replace("ada", "X"))
    assert said == '<a aria-label="X" d="ada">X<b>X</b></a>'
