"""A fast part of ``make chaos``: the rest takes half an hour."""

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.rows import ChaosRow, Crash
from tests.chaos.table import FAST, TABLE
from tests.chaos.trial import ChaosTrial, References, unexpected


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> References:
    """The undisturbed runs, made once."""
    return References(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("row", FAST, ids=[row.name for row in FAST])
def test_a_fault_is_named_answered_and_survived(
    row: ChaosRow, references: References, tmp_path: Path
) -> None:
    """The cause, the remedy and the end are those of the table, and nothing is left."""
    result = ChaosTrial(row, tmp_path / row.name, references).judge()
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.problems == [], result.output


def test_the_table_is_whole() -> None:
    """At least 40 kinds of fault, each once; what make test runs has to hold."""
    names = [row.name for row in TABLE]
    assert len(set(names)) == len(names) >= 40
    assert not any(row.pending for row in FAST)
    assert len(FAST) >= len(TABLE) // 4


def incident(cause: str, remedy: str, text: str = "a line") -> dict[str, Any]:
    """As ``incidents --json`` has it."""
    return {
        "happened": "ended",
        "cause": cause,
        "remedy": {"kind": remedy},
        "because": [{"text": text, "signature": "x", "line": 1}],
    }


def test_the_driver_sees_what_is_wrong() -> None:
    """Another cause or remedy, one too few or too many, another quote: each is told."""
    again = Crash("native_crash", "restart", many=True)
    stop = Crash("native_crash", "stop", "line")
    three = [incident("native_crash", "restart")] * 3
    last = incident("native_crash", "stop")
    assert unexpected((again, stop), [*three, last]) == []
    for wrong in (
        three,
        [last],
        [],
        [*three, last, last],
        [*three, incident("unknown", "stop")],
        [*three, incident("native_crash", "restart"), incident("native_crash", "wait")],
        [*three, incident("native_crash", "stop", "other words")],
    ):
        assert unexpected((again, stop), wrong), wrong
    warning = Crash("host_oom", "go_on", maybe=True)
    assert unexpected((warning, stop), [last]) == []
    assert unexpected((warning, stop), [incident("host_oom", "go_on"), last]) == []
    assert unexpected((warning, stop), [incident("host_oom", "go_on")])
    went_on = {**last, "happened": "recovered"}
    in_place = Crash("native_crash", "stop", in_place=True)
    assert unexpected((in_place,), [went_on]) == []
    assert unexpected((in_place,), [last])
    assert unexpected((stop,), [went_on])
    assert unexpected((), []) == []
    assert unexpected((), [last])
