"""What a terminal is shown: colours and the status row only where they are wanted."""

import os
import re

import pytest

from supervisor.cli.views.run_screen import RunScreen, ScreenOptions

KNOWN = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("environment", "colour", "row"),
    [
        (KNOWN, True, True),
        (KNOWN | {"NO_COLOR": ""}, True, True),  # https://no-color.org: not empty
        (KNOWN | {"NO_COLOR": "0"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": ""}, False, False),
        ({}, False, False),
    ],
)
def test_the_environment_is_respected(
    environment: dict[str, str], *, colour: bool, row: bool
) -> None:
    """A colour is left out without the row, the row never without a terminal."""
    options = ScreenOptions.of(environment, quiet=False)
    assert (options.colour, options.row) == (colour, row)
    assert not ScreenOptions.of(environment, quiet=True).row


@pytest.mark.parametrize("environment", [KNOWN, KNOWN | {"NO_COLOR": "1"}])
def test_a_line_has_colours_or_none(environment: dict[str, str]) -> None:
    """By what is written."""
    reading, writing = os.pipe()
    options = ScreenOptions.of(environment, quiet=False)
    with RunScreen(None, options, descriptor=writing) as screen:
        screen.say("attempt 1 started")
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        written = file.read()
    assert b"attempt 1 started" in written
    coloured = re.search(rb"\x1b\[[0-9;]*m", written)  # SGR (ECMA-48)
    assert (coloured is not None) == options.colour
