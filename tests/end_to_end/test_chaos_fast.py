"""A fast part of ``make chaos``: the rest takes half an hour."""

from pathlib import Path

import pytest

from tests.chaos.rows import Row
from tests.chaos.table import FAST, TABLE
from tests.chaos.trial import References, Trial


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> References:
    """The undisturbed runs, made once."""
    return References(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("row", FAST, ids=[row.name for row in FAST])
def test_a_fault_is_named_answered_and_survived(
    row: Row, references: References, tmp_path: Path
) -> None:
    """The cause, the remedy and the end are those of the table, and nothing is left."""
    verdict = Trial(row, tmp_path / row.name, references).judge()
    if verdict.skipped:
        pytest.skip(verdict.skipped)
    assert verdict.problems == [], verdict.output


def test_the_table_is_whole() -> None:
    """At least 40 kinds of fault, each once; what make test runs has to hold."""
    names = [row.name for row in TABLE]
    assert len(set(names)) == len(names) >= 40
    assert not any(row.pending for row in FAST)
    assert len(FAST) >= len(TABLE) // 5
