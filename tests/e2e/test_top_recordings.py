"""``top`` as a person sees and uses it, in a real terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boxes import BoxUnderTest, box_in
from tests.support.recording import Recording

DIGITS = r"""
import pathlib, sys, time
for n in range(12):
    sys.stdout.write(f"\r\x1b[1m{n + 1:2}/12\x1b[0m \x1b[32m{'━' * n}\x1b[0m")
print("\n\x1b]0;title\x07 日本語", flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.05)
print("it goes on", flush=True)
while not pathlib.Path("end").exists(): time.sleep(0.05)
"""
LIST = "? keys · q end"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxUnderTest]:
    """A daemon with a job that runs and one that gave up."""
    with box_in(tmp_path) as made:
        made.begin()
        made.do("submit", made.script(DIGITS, "digits.py"))
        made.do("submit", made.script("raise ValueError('no data')", "bad.py"))
        made.until(lambda job: job["state"] == "running", "digits")
        made.until(lambda job: job["state"] == "gave_up", "bad")
        yield made


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Recording]:
    """One of the usual size."""
    made = Recording(tmp_path, columns=80, rows=24)
    yield made
    made.close()


def top(box: BoxUnderTest, *before: str) -> list[str]:
    """The command, with words that the shell does before."""
    return [*before, box.program, "top", "--every", "0.2", "--state-dir", "state"]


def given_back(terminal: Recording, code: int) -> None:
    """The terminal is as it was, after an end with this code."""
    terminal.until(lambda shown: LIST not in shown and shown.endswith("$"))
    terminal.run(
        ["echo", "code", "$?;", "stty", "-a", "|", "grep", "-ow", "'[-]*echo'"]
    )
    terminal.until(lambda shown: f"code {code}\necho\n$" in shown)


def test_jobs_are_looked_through(box: BoxUnderTest, terminal: Recording) -> None:
    """Selected, sorted, filtered, opened; a log is live, and nothing in it is obeyed."""
    terminal.run(top(box))
    screen = terminal.until(lambda shown: LIST in shown)
    assert screen.startswith("2 jobs, 0 of 0 GPUs held")
    terminal.type("S")
    terminal.until(lambda shown: "state▲" in shown and "\n> " in shown)
    terminal.type("S")
    terminal.until(lambda shown: shown.index("bad") < shown.index("digits"))
    terminal.type("/", "D", "I", "G")
    terminal.until(lambda shown: "filter: DIG_" in shown and "bad" not in shown)
    terminal.type("Enter", "l")
    screen = terminal.until(lambda shown: "log of attempt 1 · live" in shown)
    terminal.until(
        lambda shown: "12/12 ━━━━━━━━━━━\n\\x1b]0;title\\x07 日本語" in shown
    )
    (box.directory / "go").touch()
    terminal.until(lambda shown: "it goes on" in shown)
    terminal.type("Escape")
    terminal.until(lambda shown: "filter 'DIG'" in shown)
    terminal.type("Escape")
    terminal.until(
        lambda shown: "filter" not in shown.split("\n")[0] and "bad" in shown
    )
    terminal.type("g", "Enter")
    terminal.until(lambda shown: "[user_error] → stop" in shown)
    terminal.resize(40, 12)
    screen = terminal.until(lambda shown: len(shown.split("\n")) == 12)
    terminal.until(lambda shown: shown.endswith("? keys · q back"))
    terminal.type("?")
    terminal.until(lambda shown: "select a job" in shown)
    terminal.type("x", "q")
    terminal.until(lambda shown: LIST in shown)
    terminal.type("q")
    given_back(terminal, 0)


def test_the_terminal_is_given_back(box: BoxUnderTest, terminal: Recording) -> None:
    """After Ctrl-Z until fg, after bg too; after Ctrl-C, after SIGTERM, there as well."""
    terminal.run(top(box))
    terminal.until(lambda shown: LIST in shown)
    terminal.type("C-z")
    terminal.until(lambda shown: "Stopped" in shown and LIST not in shown)
    terminal.run(["bg"])
    terminal.run(["echo", "still", "here"])
    terminal.until(lambda shown: "\nstill here" in shown)
    terminal.run(["fg"])
    terminal.until(lambda shown: LIST in shown)
    terminal.type("C-c")
    given_back(terminal, 0)
    kill = "(until [ -e kill ]; do sleep 0.1; done; kill $$) & exec"
    terminal.run(["clear;", "sh", "-c", f"'{' '.join(top(box, kill))}'"])
    terminal.until(lambda shown: LIST in shown)
    (box.directory / "kill").touch()
    given_back(terminal, 143)
    terminal.run(["clear;", *top(box)])
    terminal.until(lambda shown: LIST in shown)
    terminal.type("C-z")
    terminal.until(lambda shown: "Stopped" in shown and LIST not in shown)
    terminal.run(["clear;", "bg"])
    terminal.run(["kill", "%1;", "kill", "-CONT", "%1"])
    terminal.run(["wait", "%1"])
    given_back(terminal, 143)


@pytest.mark.slow
def test_the_daemon_ends_meanwhile(box: BoxUnderTest, terminal: Recording) -> None:
    """The files tell from then on."""
    terminal.run(top(box))
    terminal.until(lambda shown: "2 jobs, 0 of 0 GPUs held" in shown)
    box.end(box.daemons[0])
    terminal.until(lambda shown: "2 jobs, no daemon runs" in shown)
    terminal.until(lambda shown: "interrupted" in shown)
    terminal.type("q")
    given_back(terminal, 0)


@pytest.mark.slow
def test_a_terminal_that_knows_no_more_than_lines(
    box: BoxUnderTest, terminal: Recording
) -> None:
    """And a pipe: a table is printed, and no key is waited for."""
    terminal.run([*top(box, "TERM=dumb"), "--times", "2;", "echo", "code", "$?"])
    screen = terminal.until(lambda shown: "\ncode 0" in shown)
    assert "digits" in screen
    assert LIST not in screen
    said = box.do("top", "--times", "1")
    assert said.startswith("2 jobs, 0 of 0 GPUs held")
    assert "\x1b" not in said
