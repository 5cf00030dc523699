"""The certificate of a script: its verdict, in words."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.certificate import (
    FILES,
    FILES_ALONE,
    FILES_OF_A_LOOP,
    HIDDEN,
    NOT_REPRODUCIBLE,
    Certificate,
    Outcome,
    RunComparison,
    deaths_among,
    kills_among,
)
from supervisor.core.jobs.changing_lines import ChangingLine


def certificate(
    *differ: str,
    again: Sequence[str] | None = None,
    killed_at: tuple[int, ...] = (3, 8),
    kills: int | None = None,
    tensors: int = 9,
    files: int = 1,
    unpromised: tuple[str, ...] = (),
    too_late: tuple[str, ...] = (),
    failures: tuple[str, ...] = (),
    changing: tuple[ChangingLine, ...] = (),
) -> Certificate:
    """One of ten steps."""
    undisturbed = (
        None
        if again is None
        else RunComparison(tensors=tensors, files=files, differ=tuple(again))
    )
    return Certificate(
        steps=10,
        killed_at=killed_at,
        kills=len(killed_at) if kills is None else kills,
        seconds=1.0,
        comparison=RunComparison(tensors=tensors, files=files, differ=differ),
        undisturbed=undisturbed,
        unpromised=unpromised,
        too_late=too_late,
        failures=failures,
        changing=changing,
    )


def test_all_the_same() -> None:
    """Certified, with what was compared."""
    found = certificate()
    assert found.outcome is Outcome.CERTIFIED
    assert found.lines == [
        (
            "certified (10 steps, killed after 3, 8): 9 tensors and 1 file are the same to"
            " the bit as in a run that nobody disturbed"
        )
    ]


def test_all_the_same_though_that_was_not_promised() -> None:
    """Both are told, with every reason of the run."""
    found = certificate(unpromised=("a thread trains", "a seed is the clock's"))
    assert found.outcome is Outcome.CERTIFIED
    assert found.promise == "a thread trains"
    assert found.lines[1:] == [
        "the run itself did not promise that: a thread trains",
        "the run itself did not promise that: a seed is the clock's",
    ]


@pytest.mark.parametrize(
    ("differ", "promise", "because"),
    [
        (("dense/kernel",), None, HIDDEN),
        (("dense/kernel", "file a.csv"), None, HIDDEN),
        (("file a.csv",), None, FILES_ALONE),
        (("dense/kernel",), "a thread trains", "the run had said so: a thread trains"),
    ],
)
def test_what_differs_only_where_it_is_killed(
    differ: tuple[str, ...], promise: str | None, because: str
) -> None:
    """Not certified, with what is most likely the reason."""
    said = () if promise is None else (promise,)
    found = certificate(*differ, again=(), unpromised=said)
    assert (found.outcome, found.promise) == (Outcome.DIFFERS, promise)
    verdict, told, named = found.lines
    assert verdict == (
        "not certified (10 steps, killed after 3, 8): it differs from a run that nobody"
        f" disturbed in {len(differ)} place{'s' * (len(differ) > 1)} of 9 tensors and 1 file,"
        " callbacks and what else a snapshot holds"
    )
    assert told == because
    assert named == f"they are {', '.join(differ)}"


def test_what_was_said_only_later_is_no_warning() -> None:
    """It is told as what it is: a promise that was not kept."""
    said = ("a thread trains", "the data are others")
    found = certificate("dense/kernel", again=(), unpromised=said, too_late=said[1:])
    assert found.lines[1:3] == [
        "the run had said so: a thread trains",
        (
            "bits were promised until it was killed; only later it, or the undisturbed run,"
            " said: the data are others"
        ),
    ]


def test_kills_that_did_not_come_are_told() -> None:
    """Else two numbers would stand where three kills were asked for."""
    (_, told) = certificate(kills=3).lines
    assert told == "2 of 3 kills came: the run was over before the others"


def test_files_alone_could_be_compared() -> None:
    """No weights were, and that is said."""
    first, second = certificate(tensors=0, files=3).lines
    assert "): 3 files are the same to the bit" in first
    assert second == FILES_OF_A_LOOP


def test_lines_to_change_are_shown() -> None:
    """Where training differs: those of what the promise was withdrawn for, if they are known."""
    lines = (
        ChangingLine(3, "seen", "seen += 1"),
        ChangingLine(9, "table", "table[k] = 1"),
    )
    shown = certificate("a", again=(), changing=lines).lines[3:]
    assert shown == [
        "where to look in the script:",
        "  line 3: seen += 1",
        "  line 9: table[k] = 1",
    ]
    said = certificate(
        "a", again=(), changing=lines, unpromised=("training changes table",)
    )
    assert said.lines[4:] == ["  line 9: table[k] = 1"]
    assert len(certificate("file a.csv", again=(), changing=lines).lines) == 3


def test_what_differs_by_itself() -> None:
    """Nothing can be said about the kills."""
    found = certificate("b", "a", again=["a", "b", "c"])
    assert found.outcome is Outcome.NOT_REPRODUCIBLE
    verdict, because, named = found.lines
    assert verdict.endswith("two runs that nobody disturbs differ, too")
    assert because == NOT_REPRODUCIBLE
    assert named == "they differ in a, b, c"


def test_what_differs_by_itself_had_been_said() -> None:
    """The run knew why: a seed that comes from the clock, say. The verdict repeats it,
    before the names, and guesses at nothing else."""
    found = certificate("a", again=["a"], unpromised=("train.py:3 seeds with 17",))
    assert found.outcome is Outcome.NOT_REPRODUCIBLE
    assert found.lines[1:] == [
        "the run had said so: train.py:3 seeds with 17",
        "they differ in a",
    ]


def test_a_reason_is_told_in_one_sentence() -> None:
    """What is said of one line of the script more than once; and no path of a run's state
    is shown."""
    said = (
        "train.py:5 seeds with 17",
        "a thread trains",
        "train.py:5 sets another seed",
    )
    found = certificate(
        "local.data.rows[0]", again=["local.data.rows[0]"], unpromised=said
    )
    assert found.lines[1:] == [
        "the run had said so: train.py:5 seeds with 17",
        "the run had said so: a thread trains",
        "they differ in training data",
    ]


def test_a_generator_is_one_thing() -> None:
    """Seeded anew in each run, some numbers of its state are the same by chance."""
    drawn = ("random.python.v[1].v[0]", "random.python.v[1].v[1]", "data[0]")
    found = certificate("random.python.v[1].v[624]", *drawn, again=drawn)
    assert (found.outcome, found.by_kill) == (Outcome.NOT_REPRODUCIBLE, ())
    other = certificate("random.numpy.v[2]", "data[1]", again=drawn)
    assert other.by_kill == ("random.numpy.v[2]", "data[1]")


def test_some_differs_by_itself() -> None:
    """What does not is told first."""
    found = certificate("a", "b", again=["a"])
    assert (found.outcome, found.by_kill) == (Outcome.DIFFERS, ("b",))
    assert found.lines[-1] == "these differ between runs that nobody disturbs, too: a"


@pytest.mark.parametrize(
    ("found", "because"),
    [
        (certificate(killed_at=()), "no step was seen"),
        (
            certificate(killed_at=(), unpromised=("its steps are eager",)),
            "no step of it is saved: its steps are eager",
        ),
        (certificate(tensors=0, files=0), "it left no snapshot and no file"),
    ],
)
def test_what_was_not_tried_is_not_certified(found: Certificate, because: str) -> None:
    """And says why."""
    assert found.outcome is Outcome.NOT_TRIED
    assert because in found.lines[0]


def test_files_alone_tell_little() -> None:
    """Where no tensor could be compared, nobody says that training is the same."""
    found = certificate("file weights.npz", again=(), tensors=0)
    assert found.lines[1] == FILES


def test_many_names_are_counted() -> None:
    """Eight are enough."""
    found = certificate(*(f"t{number}" for number in range(10)), again=())
    assert found.lines[2].endswith("t6, t7 and 2 more")


def test_failures_on_the_way_are_told() -> None:
    """They were not planned."""
    found = certificate(failures=("device_oom",))
    assert found.lines[-1] == "on the way an attempt failed by itself: device_oom"


@given(st.integers(0, 200), st.lists(st.floats(0, 1, exclude_max=True), max_size=20))
def test_kills_come_in_order_and_before_the_end(steps: int, draws: list[float]) -> None:
    """As many as asked for, where there are steps enough."""
    found = kills_among(steps, draws)
    assert len(found) == max(min(len(draws), steps - 1), 0)
    assert list(found) == sorted(set(found))
    assert all(1 <= step < steps for step in found)


def test_kills_are_numbered_as_the_incidents_of_the_run() -> None:
    """Not as they were drawn: a step more or less may be done by then. A run that ended
    before the last kill has one incident less."""
    assert deaths_among((298, 500, 590), [297, 501]) == (297, 501)
    assert deaths_among((298, 500), [None, 501]) == (298, 501)
