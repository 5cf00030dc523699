"""A smaller slice after a step that came too near the limit, as long as that helps."""

import pytest

from supervisor.wire.slices import TIGHT_PART
from trainers.microbatch.calibration import Readings
from trainers.microbatch.stepping_back import SteppedBack, stepped_back


def test_a_step_near_the_limit_makes_one_slice_more() -> None:
    """128 samples in three slices, then in four; of one sample there is no less.

    Not where operations only wait for memory: many small pieces, or one block alone.
    """
    limit = 280 * 2**20

    def after(peak: int, *, size: int = 43, request: int | None = 45_000_000) -> int:
        step = Readings(before=32_000_000, peak=peak, after=34_000_000, request=request)
        return stepped_back(size, step, batch=128, limit_bytes=limit)

    assert after(int(TIGHT_PART * limit)) == 43
    assert after(290_000_000) == 32
    assert after(290_000_000, request=None) == 32
    assert after(290_000_000, request=5_000_000) == 43
    assert after(290_000_000, request=250_000_000) == 43
    assert after(290_000_000, size=1, request=None) == 1


@pytest.mark.parametrize(
    ("size", "added", "vain"),
    [
        (16, 100, True),  # half the slice, and as much: it is none of theirs
        (16, 80, True),
        (16, 70, False),  # more than half of what was to be saved
        (16, 50, False),
        (17, 100, False),  # it may be chance yet
        (4, 60, True),
        (4, 20, False),
    ],
)
def test_ever_smaller_slices_are_not_taken_in_vain(
    size: int, added: int, *, vain: bool
) -> None:
    """From half of the first size on they have to have helped."""
    first = SteppedBack(size=32, added=100)
    step = Readings(before=7, peak=9 + added, after=9)
    assert first.is_vain(size, step) is vain


def test_what_no_slice_takes_is_told_by_the_first_step_and_this_one() -> None:
    """Half the slice saved 10 of 100: as much again is what is left to it."""
    first = SteppedBack(size=32, added=100)
    step = Readings(before=7, peak=99, after=9)
    assert first.unsliced_bytes(16, step) == 89
    assert first.unsliced_bytes(16, Readings(before=7, peak=129, after=9)) == 129
