"""The pure part of ``make bench-restart`` and ``bench-goodput``: counting, pairs, tables."""

import sys
from pathlib import Path

import pytest

from supervisor.wire.event_file import Record, RecordKind
from tests.bench.goodput import GoodputRow, table
from tests.bench.recovery import contestants
from tests.bench.recovery.contestants import CONTESTANTS, Contestant
from tests.bench.recovery.paired_table import (
    FEWEST_STEPS,
    RestartRow,
    in_turn,
    phase_line,
    quartiles,
    ratios,
    steps_before,
    table_line,
    target_line,
)
from tests.bench.recovery.restart_phases import (
    PhaseEnd,
    first_at,
    imported_at,
    in_place,
    of_next_attempt,
    split,
)
from tests.bench.recovery.told_steps import (
    NewStep,
    ToldStep,
    first_new,
    new_steps,
    parse,
    step_seconds,
)
from tests.bench.restart import MODELS, TARGETS


def test_a_half_written_line_is_no_step() -> None:
    """The last one may be; a fault has a name."""
    told = parse("7 1 10.5 \n7 1 10.9 nan\n7 2 1")
    assert told == [ToldStep(7, 1, 10.5), ToldStep(7, 1, 10.9, "nan")]


def test_steps_done_again_are_not_new() -> None:
    """What counts is what the killed process had done, its last step included: it may be
    told of after the kill was asked for."""
    told = [ToldStep(1, 1, 1.0), ToldStep(1, 2, 2.0), ToldStep(1, 3, 3.1)]
    told += [ToldStep(2, 2, 9.0), ToldStep(2, 3, 9.5)]
    assert first_new(told, since=3.0, killed=1) is None
    told += [ToldStep(2, 4, 10.0), ToldStep(2, 5, 11.0)]
    assert first_new(told, since=3.0, killed=1) == NewStep(7.0, 2, 10.0)


def test_a_process_that_goes_on_does_steps_again_too() -> None:
    """In place: the same pid before and after the fault."""
    told = [ToldStep(1, 4, 4.0), ToldStep(1, 4, 4.5, "nan"), ToldStep(1, 3, 5.0)]
    told += [ToldStep(1, 4, 5.5), ToldStep(1, 5, 6.0)]
    assert first_new(told, since=4.5, killed=None) == NewStep(1.5, 2, 6.0)


def test_new_steps_of_a_stretch() -> None:
    """Not those of before, nor after, nor those that are done again."""
    told = [ToldStep(1, 1, 1.0), ToldStep(1, 2, 2.0), ToldStep(1, 3, 3.0)]
    told += [ToldStep(1, 3, 3.0, "oom"), ToldStep(2, 2, 5.0), ToldStep(2, 3, 6.0)]
    told += [ToldStep(2, 4, 7.0), ToldStep(2, 5, 9.0)]
    assert new_steps(told, since=1.5, until=8.0) == 3


def test_what_a_step_takes() -> None:
    """Restarts, faults and steps done again are not between two steps."""
    told = [ToldStep(1, 1, 0.0), ToldStep(1, 2, 0.5), ToldStep(1, 2, 0.6, "nan")]
    told += [ToldStep(1, 3, 9.0), ToldStep(2, 4, 20.0), ToldStep(2, 4, 30.0)]
    assert step_seconds(told) == 0.5
    assert step_seconds(told[:1]) is None


def test_rounds_turn_around() -> None:
    """ABBA: who was last begins."""
    assert [in_turn("abc", number) for number in range(2)] == [[*"abc"], [*"cba"]]


def test_faults_fall_anywhere_in_an_epoch() -> None:
    """The same for all, and again in the next benchmark."""
    drawn = [steps_before(number, epoch=16) for number in range(40)]
    assert drawn == [steps_before(number, epoch=16) for number in range(40)]
    assert {*drawn} <= {*range(FEWEST_STEPS, FEWEST_STEPS + 16)}
    assert len({*drawn}) > 10


def test_quartiles() -> None:
    """Of one value they are that value."""
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)


def test_ratios_are_of_rounds_that_both_have() -> None:
    """A contestant may have failed in one."""
    ours = RestartRow("ours", {0: 5.0, 1: 6.0, 3: 1.0})
    theirs = RestartRow("loop", {0: 10.0, 1: 24.0, 2: 1.0})
    assert ratios(ours, theirs) == [0.5, 0.25]


def test_a_line_of_the_table() -> None:
    """With steps done again, and beside each base; without a figure the reason."""
    base = RestartRow("loop", {0: 10.0}, [8])
    line = table_line(RestartRow("ours", {0: 4.0}, [3]), [base])
    words = ["ours", "4.0", "(4.0", "to", "4.0)", "s", "3.0", "0.40", "(0.40"]
    assert line.split()[:9] == words
    failed = RestartRow("ft_launcher", why_not="cannot be had")
    assert table_line(failed, [base]).split(maxsplit=1) == [
        "ft_launcher",
        "cannot be had",
    ]
    assert table_line(base, [failed]).endswith(" -")


def test_a_row_that_failed_later_keeps_its_figures() -> None:
    """And says why there are fewer."""
    row = RestartRow("loop", {0: 1.0}, [0], why_not="it ended, 1")
    assert table_line(row, []).endswith("it ended, 1")


def test_phases_are_medians() -> None:
    """In the order in which they come; who tells of none has no line."""
    row = RestartRow("ours", phases=[{"dead": 1.0, "started": 2.0}, {"dead": 3.0}])
    assert phase_line(row) == f"{'ours':24} dead 2.00, started 2.00"
    assert phase_line(RestartRow("loop")) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (2.0, "0.20 of the target's 0.25: met"),
        (4.0, "0.40 of the target's 0.25: missed; most went to: imported"),
    ],
)
def test_targets_are_judged_beside_the_better_base(seconds: float, said: str) -> None:
    """Where one is missed, the phase that took most is named."""
    bases = [RestartRow("slow", {0: 50.0}), RestartRow("fast", {0: 10.0})]
    row = RestartRow("ours", {0: seconds}, phases=[{"dead": 0.1, "imported": 3.0}])
    assert target_line(row, bases, 0.25) == f"{'ours':24} {said}"
    assert target_line(row, [], 0.25) is None


def test_phases_follow_each_other() -> None:
    """One that was not told is part of the next; one that was over takes nothing."""
    moments = [
        PhaseEnd("dead", 10.5),
        PhaseEnd("decided", None),
        PhaseEnd("started", 9.0),
    ]
    found = split([*moments, PhaseEnd("new step", 12.0)], since=10.0)
    assert found == {"dead": 0.5, "started": 0.0, "new step": 1.5}


def record(kind: str, seconds: float, **fields: object) -> Record:
    """One of an attempt."""
    return Record(kind, int(seconds * 1e9), fields)


def test_the_moments_of_the_next_attempt() -> None:
    """Imported is when the framework is there; a proof counts to its end."""
    records = [
        record(RecordKind.LAUNCHED, 12.0, versions={"python": "3.11"}),
        record(RecordKind.LAUNCHED, 15.0, versions={"tensorflow": "2", "keras": "3"}),
        record(RecordKind.PROOF, 16.0, result="begun"),
        record(RecordKind.RESTORED, 17.0),
        record(RecordKind.FIRST_STEP, 20.0),
        record(RecordKind.PROOF, 21.0, result="proved"),
        record(RecordKind.PROOF, 99.0, result="begun"),
    ]
    found = of_next_attempt(
        records, ended=10.1, decided=11.0, started=11.5, new_step=22.0
    )
    times = [10.1, 11.0, 11.5, 15.0, 17.0, 20.0, 21.0, 22.0]
    assert [at for _, at in found] == times
    assert imported_at(records[:1]) is None
    assert first_at(records, RecordKind.RESTORED, since=18.0) is None


def test_the_moments_in_place() -> None:
    """What its process told before the fault is of no concern."""
    records = [
        record(RecordKind.FIRST_STEP, 2.0),
        record(RecordKind.STEP_FAILED, 10.2),
        record(RecordKind.GOES_ON, 10.4),
        record(RecordKind.RESTORED, 10.3),
    ]
    found = split(in_place(records, since=10.0, new_step=11.0), since=10.0)
    assert list(found) == ["noticed", "decided", "restored", "to the new step"]
    assert sum(found.values()) == pytest.approx(1.0)


def test_goodput() -> None:
    """New steps times what one takes, of the time of all stretches."""
    row = GoodputRow("ours", [100, 80], [50.0, 50.0])
    assert row.goodput(0.5) == 0.9
    assert table([row], 0.5)[-1].split() == ["ours", "0.90", "180", "100"]
    assert table([row], None) == table([GoodputRow("loop")], 0.5)


def test_who_lacks_packages_says_so(tmp_path: Path) -> None:
    """As a row with the reason; an empty directory is what a failed install leaves."""
    one = Contestant("loop, Orbax", needs=(tmp_path / "orbax",))
    assert one.missing() == "cannot be had: make installed nothing in orbax"
    (tmp_path / "orbax" / "orbax-1.dist-info").mkdir(parents=True)
    assert one.missing() is None


def test_names_and_targets_agree() -> None:
    """Names are once there, bases among them, and targets of those that are measured."""
    names = [one.name for one in CONTESTANTS]
    assert len({*names}) == len(names)
    assert {*contestants.BASES} <= {*names}
    assert {*TARGETS} == {*MODELS}
    assert all({*targets} <= {*names} for targets in TARGETS.values())


def test_no_module_beside_the_script_hides_one_of_python() -> None:
    """The folder of a script is where its modules are looked up first."""
    beside = {path.stem for path in contestants.TRIAL.parent.glob("*.py")}
    assert contestants.TRIAL.stem in beside
    assert not beside & sys.stdlib_module_names
