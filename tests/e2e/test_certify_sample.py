"""The short version of ``make certify``: a few rows of the table, really killed."""

import pytest

from tests.certify.certify import run_rows, short
from tests.certify.table import SAMPLE, TABLE
from tests.support.zygote import Zygote

ROWS = {row.name: row for row in TABLE}


@pytest.mark.parametrize("name", SAMPLE)
def test_killed_runs_end_as_if_they_had_not_been(zygote: Zygote, name: str) -> None:
    """Two kinds of loops of its own, hidden state, and a script of arrays without any seed,
    through seeded kills: the same bits, and each sample once."""
    (result,) = run_rows(short([ROWS[name]]), zygote, seed=1)
    assert not result.problems
    assert result.bits
    assert len(result.deaths) >= 3
