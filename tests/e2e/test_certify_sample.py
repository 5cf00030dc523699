"""The short version of ``make certify``: a few rows of the table, really killed."""

from tests.certify.certify import run_rows, short
from tests.certify.table import SAMPLE, TABLE
from tests.support.zygote import Zygote


def test_killed_runs_end_as_if_they_had_not_been(zygote: Zygote) -> None:
    """Two kinds of loops of its own, hidden state, and a script of arrays without any seed,
    through seeded kills: the same bits, and each sample once."""
    results = run_rows(
        short([row for row in TABLE if row.name in SAMPLE]), zygote, seed=1
    )
    assert {v.row.name: v.problems for v in results} == {name: [] for name in SAMPLE}
    assert all(result.bits for result in results)
    assert sum(len(result.deaths) for result in results) >= 3 * len(SAMPLE)
