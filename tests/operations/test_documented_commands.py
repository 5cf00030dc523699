"""What README and documents show to type is what the command takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from supervisor.cli.command_group import trainwarden

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("d*/**/*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(trainwarden [a-z][^`]*)`")
FILES = ("train.py", "job.toml", "trainwarden.toml")
"""Those that the commands are given."""


def shown(text: str) -> Iterator[str]:
    """Command lines of a document: in blocks (without prompt and comment), and inline."""
    yield from (" ".join(words.split()) for words in INLINE.findall(text))
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            found = re.match(r"(?:\s|\$|\w+=\S+)*(trainwarden [a-z].*)", line)
            if found and "..." not in line:
                yield found[1]


COMMANDS = sorted({line for path in DOCUMENTS for line in shown(path.read_text())})


def test_there_are_commands() -> None:
    """The patterns find them."""
    assert len(COMMANDS) > 60


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_taken(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options and arguments are parsed as they would be; nothing is started."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).touch()
    words = shlex.split(line.replace("$ID", "1"), comments=True)[1:]
    stops = [place for place, word in enumerate(words) if word in {"|", "&", ">", "&&"}]
    verb, *rest = words[: min(stops, default=len(words))]
    with click.Context(trainwarden) as context:
        command = trainwarden.get_command(context, verb)
        assert command is not None, line
        if not rest:
            return  # the text names it
        try:
            command.make_context(verb, rest, parent=context)
        except click.UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")
