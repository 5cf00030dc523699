"""The short version of ``make certify``: a few rows of the table, really killed."""

import pytest

from tests.certify.certify import run_rows, short
from tests.certify.table import SAMPLE, TABLE
from tests.support.samples import sampled
from tests.support.zygote import Zygote

ROWS = {row.name: row for row in TABLE}


@pytest.mark.parametrize("name", sampled(SAMPLE, "ordinary_split"))
def test_killed_runs_end_as_if_they_had_not_been(zygote: Zygote, name: str) -> None:
    """A script of arrays without any seed (slow: two kinds of loops of its own, hidden
    state), through seeded kills: the same bits, and each sample once."""
    (result,) = run_rows(short([ROWS[name]]), zygote, seed=1)
    assert not result.problems
    assert result.bits
    assert len(result.deaths) >= 3


@pytest.mark.slow
def test_a_killed_run_goes_on_in_processes_that_stood_by(zygote: Zygote) -> None:
    """A script without any seed, on data that it draws: the same bits, and none of them
    had to begin anew."""
    (result,) = run_rows(short([ROWS["ordinary_split"]]), zygote, seed=1, standby=True)
    assert not result.problems
    assert result.bits
    assert result.stood_by >= 2
    assert result.cold == []


@pytest.mark.slow
def test_a_run_goes_on_in_its_process_as_if_its_loss_had_not_been_lost(
    zygote: Zygote,
) -> None:
    """Four times: the same bits, and each sample once."""
    (result,) = run_rows([ROWS["arrays_seeded"]], zygote, seed=1, in_place=True)
    assert not result.problems
    assert result.bits
    assert result.recovered
