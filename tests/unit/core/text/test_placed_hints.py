"""Suggested commands with the state directory that they are about."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.placed_hints import WITHOUT, with_place

PLACE = "--state-dir '/a b'"


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        (
            "see `trainwarden status` or `trainwarden logs -f x`",
            "see `trainwarden status P` or `trainwarden logs P -f x`",
        ),
        ("`trainwarden\nincidents --json`", "`trainwarden incidents P --json`"),
        ("`trainwarden status --state-dir /d`", "`trainwarden status --state-dir /d`"),
        ("`trainwarden daemon --config FILE`", "`trainwarden daemon --config FILE`"),
        ("trainwarden status", "trainwarden status"),
        ("`python status`", "`python status`"),
    ],
)
def test_only_commands_that_are_about_one(text: str, placed: str) -> None:
    """Behind the name of the command: what follows a script is the script's."""
    assert with_place(text, PLACE) == placed.replace("P", PLACE)
    assert with_place(text, "") == text


@given(st.text(alphabet="`trainwarden status-dir\n/ab"))
def test_twice_is_once(text: str) -> None:
    """What was placed is left as it is."""
    once = with_place(text, PLACE)
    assert with_place(once, PLACE) == once


def test_those_without_take_no_state_directory() -> None:
    """As the command line has it."""
    from supervisor.cli.command_group import trainwarden  # noqa: PLC0415  # the shell's

    context = click.Context(trainwarden)
    takes = dict[str, bool]()
    for name in trainwarden.list_commands(context):
        command = trainwarden.get_command(context, name)
        assert command is not None
        takes[name] = any("--state-dir" in one.opts for one in command.params)
    assert {name for name, does in takes.items() if not does} == WITHOUT
