"""Lines of a script where its functions change what lives outside of them."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.changing_lines import (
    LONGEST,
    ChangingLine,
    changing_lines,
    likeliest,
)

SCRIPT = """\
import itertools
seen = 0
order = itertools.count()
table = {}
table["at the start"] = 1

class Loss:
    def call(self, y, p):
        global seen
        seen += 1
        self.calls = seen
        mine = []
        mine.append(seen)
        return next(order)

def batches():
    history = []
    def one(x, *rest, key=None, **more):
        history.append(x)
        table[key] = x
        rest.clear()
        del more[key]
        return history[-1]
    return one

picked = lambda name: table.pop(name)
async def ask(left, right):
    (table[1], left), *right.all = left, right
    note: int = 1
    class Inner:
        pass
    Inner.made = note
    print("nothing", sum([1]).real, next(iter([1])))
"""


def test_what_is_changed_from_inside_of_functions() -> None:
    """Globals, closures and iterators; neither what is local, nor the script's own level."""
    found = [(line.number, line.name) for line in changing_lines(SCRIPT)]
    assert found == [
        (10, "seen"),
        (14, "order"),
        (19, "history"),
        (20, "table"),
        (26, "table"),
        (28, "table"),
    ]
    assert str(changing_lines(SCRIPT)[0]) == "line 10: seen += 1"


def test_a_nonlocal_name_is_not_the_functions_own() -> None:
    """Though the function binds it."""
    source = (
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n = n + 1\n"
    )
    (line,) = changing_lines(source)
    assert (line.number, line.name) == (5, "n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(end: str) -> None:
    """A form feed ends none."""
    (line,) = changing_lines(end.join(["\f", "def f():", "    a.b = 1"]))
    assert (line.number, line.code) == (3, "a.b = 1")


OTHERS = """\
import os, numpy as np
def prepared(a):
    import shutil as sh
    os.remove("x")
    sh.move("a", "b")
    np.sort(a.mean())
    matched(a).append(1)
    return np.append(a, 1)
def matched(value):
    match value:
        case [_, *rest]:
            rest.pop()
        case {"a": q, **more}:
            more.clear(), q.append(1)
    try:
        pass
    except ValueError as error:
        error.args = ()
def real():
    np.table.update(a=1)
"""


def test_what_only_looks_like_a_change_is_not_named() -> None:
    """Functions of modules, and what a pattern or a handler binds."""
    assert [line.number for line in changing_lines(OTHERS)] == [20]


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_the_source_itself() -> None:
    """Python warns of some escapes where it reads them."""
    (line,) = changing_lines("def f():\n    a.b = '\\d'\n")
    assert line.name == "a"


def test_a_line_is_shown_once() -> None:
    """Though it changes two things."""
    lines = changing_lines("def f():\n    a[0], b[0] = 1, 2\n")
    assert [line.name for line in lines] == ["a", "b"]
    assert likeliest(lines, None, 9) == lines[:1]


@pytest.mark.parametrize("source", ["def f(:", "\0", ""])
def test_what_is_no_python_has_no_lines(source: str) -> None:
    """It is no error: the hint is left out."""
    assert changing_lines(source) == ()


def test_a_long_line_is_cut() -> None:
    """What is left says that something is."""
    (line,) = changing_lines(f"def f():\n    kept.append('{'x' * 99}')\n")
    assert len(line.code) == LONGEST
    assert line.code.endswith("…")


def test_named_lines_come_alone() -> None:
    """A sentence that names the state points to its lines; one of something else to none:
    others would be taken for the reason."""
    lines = [ChangingLine(number, name, "") for number, name in enumerate("abc")]
    assert likeliest(lines, "training changes b (of train.py)", 2) == (lines[1],)
    assert likeliest(lines, "training changes z", 2) == ()
    assert likeliest(lines, None, 2) == tuple(lines[:2])


NAMES = st.from_regex(r"[a-z]{2,6}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)


@given(st.lists(NAMES, max_size=5), st.integers(0, 5))
def test_each_global_that_is_changed_is_found_where_it_is(
    names: list[str], above: int
) -> None:
    """Whatever stands before it."""
    head = "\n" * above
    body = "".join(
        f"def f_{at}():\n    {name}[0] = 1\n" for at, name in enumerate(names)
    )
    found = changing_lines(head + body)
    assert [line.name for line in found] == names
    assert [line.number for line in found] == [
        above + 2 + 2 * at for at in range(len(names))
    ]


@given(st.text(max_size=200))
def test_any_text_may_be_asked_about(source: str) -> None:
    """A script may be anything."""
    changing_lines(source)
