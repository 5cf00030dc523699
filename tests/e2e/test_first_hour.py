"""Every answer to what somebody gets wrong in their first hour: one plain sentence, and
what to do next."""

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.first_hour.every_row import ROWS
from tests.e2e.first_hour.first_hour_row import HISTORY, FirstHourRow, taken_port
from tests.support.command import marked
from tests.support.command_fork import CommandFork, command_fork
from tests.support.stranger import Answer, Place, from_shell, on_terminal, typed

MOST_LINES = 8
"""Of standard error, where nothing began: a usage of three, a sentence, a few problems."""
NOT_FOR_PEOPLE = {
    "a traceback of ours": r'File ".*/(supervisor|trainers|site-packages)/',
    "a number of an error": r"\[Errno|errno",
    "a class": r"<class '|<[\w.]+ object|PosixPath\(|\b[A-Z]\w+(Error|Exception)\(",
    "a module of ours": r"\b(supervisor|trainers)\.[a-z_]+\b(?!\.(py|sock))",
    "a library of ours": r"\b(pydantic|sqlite3|tomllib|click)\b\.",
    "an escape": "\x1b" + r"\]",
}
CODES = {0, 1, 2, 75, 130}


@pytest.fixture(scope="module")
def fork() -> Iterator[CommandFork]:
    """A process to fork command lines from."""
    with command_fork() as process:
        yield process


@pytest.fixture(scope="module", autouse=True)
def history(fork: CommandFork) -> Iterator[None]:
    """One job has finished, and another one failed."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        place = made(stack)
        place.file("bad.py", "{}['lr']\n")
        assert typed(["run", "train.py"], place, fork).code == 0
        assert typed(["run", "bad.py"], place, fork).code == 1
        patch.setenv(HISTORY, str(place.state))
        yield


def made(stack: ExitStack) -> Place:
    """A place that anybody may enter: pytest's own directories are their user's alone."""
    base = Path(tempfile.mkdtemp(prefix="first-hour-"))
    stack.callback(shutil.rmtree, base)
    base.chmod(0o755)
    (base / "place").mkdir()
    return Place(base / "place", stack)


def answer_of(row: FirstHourRow, line: str, place: Place, fork: CommandFork) -> Answer:
    """What they get to read."""
    if row.by_shell:
        return from_shell(line, place)
    if row.terminal:
        return on_terminal(line, place)
    return typed(shlex.split(line), place, fork)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.slow else [])
        for row in ROWS
    ],
)
def test_answer(row: FirstHourRow, fork: CommandFork) -> None:
    """It says what is wrong and what to do, and nothing that only we understand."""
    with ExitStack() as stack:
        place = made(stack)
        port = str(stack.enter_context(taken_port()))
        for arrange in row.given:
            arrange(place)
        before = place.contents()

        def filled(text: str) -> str:
            return place.written(text).replace("<PORT>", port)

        answer = answer_of(row, filled(row.line), place, fork)
        shown = f"ended with {answer.code}:\n{answer.out}--- stderr:\n{answer.err}"
        assert answer.code == row.code, shown
        assert answer.code in CODES
        assert re.search(filled(row.says), answer.text, re.MULTILINE), shown
        assert re.search(filled(row.do), answer.text, re.MULTILINE), shown
        ours = re.sub(r"\b[A-Z]\w+Error: .*", "", answer.text)  # as Python says theirs
        for what, pattern in NOT_FOR_PEOPLE.items():
            assert not re.search(pattern, ours), f"{what}: {shown}"
        if answer.code:
            named = row.names or tuple(shlex.split(row.line))
            assert any(filled(name) in answer.text for name in named), shown
            assert sentence(answer), shown
        if not row.starts:
            most = 60 if row.listed else MOST_LINES
            assert len(answer.err.splitlines()) <= most, shown
            assert "Traceback" not in answer.text, shown
            assert place.contents() == before, shown
        assert not marked(place.root), "processes of the run were left behind"


def sentence(answer: Answer) -> bool:
    """Whether the end of what was said, but for the script's own traceback, is plain
    words."""
    said = (answer.err.strip() or answer.out.strip()).partition("\n\nTraceback")[0]
    last = said.splitlines()[-1:]
    return any(len(re.findall(r"[A-Za-z]{2,}", line)) >= 3 for line in last)


def test_enough_rows() -> None:
    """More than a hundred, each of another name."""
    assert len({row.name for row in ROWS}) == len(ROWS) > 100
