"""``trainers.session`` without a supervisor, and what it does not take.

(Under one it is killed by a row of ``make certify``, which the short version runs too.)
"""

import numpy as np
import pytest

from trainers.fit import custom_loop
from trainers.session import session


def test_without_a_supervisor_it_only_iterates() -> None:
    """Every epoch and batch, with their numbers; what is kept is an ordinary dict."""
    seen: list[tuple[int, int, str]] = []
    with session(losses=[], rng=np.random.default_rng(1)) as run:
        for step, batch in run.steps(["a", "b"], epochs=2):
            run.log(loss=1.0)
            seen.append((run.epoch, step, batch))
        run.kept["best"] = 3
        for epoch in run.epochs(1):
            assert epoch == 0
            assert list(run.batches(["c"])) == ["c"]
        assert (run.step, run.kept) == (5, {"best": 3})
    assert seen == [(0, 0, "a"), (0, 1, "b"), (1, 2, "a"), (1, 3, "b")]


def test_a_batch_is_one_slice_without_a_supervisor() -> None:
    """The share of the only slice is 1."""
    with session() as run:
        assert list(run.slices("x", "y")) == [(("x", "y"), 1.0)]


@pytest.mark.parametrize("value", [1, "text", (1, 2), None])
def test_values_that_cannot_be_given_back_in_place_are_not_taken(value: object) -> None:
    """The sentence names them, and what to do."""
    with pytest.raises(TypeError, match=r"best is a \w+, .*run\.kept"):
        session(best=value)


def test_batches_from_python_are_drawn_as_they_are() -> None:
    """From their beginning, and in the middle of a pass."""
    source = custom_loop.source_of([(1, 2), (3, 4), (5, 6)])
    assert list(source.begin()) == [(1, 2), (3, 4), (5, 6)]
    assert list(source.resume(begun=1, drawn=2)) == [(5, 6)]
