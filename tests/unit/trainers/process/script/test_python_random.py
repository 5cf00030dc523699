"""Whoever draws from the global generators ahead of training: as it belongs to a step."""

import random
import threading
from typing import Any

import numpy as np
import pytest

from trainers.process.script import python_random
from trainers.process.script.python_random import LOOKED_AT, Ahead


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same."""
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002  # the global one


def draw() -> tuple[float, float]:
    """One number of each generator."""
    return random.random(), np.random.random()  # noqa: NPY002, S311  # the global ones


def put(state: python_random.State | None) -> None:
    """Let both stand so."""
    assert state is not None
    python_random.put_back(state)


def asked(
    ahead: Ahead, numbers: range, *, trained: int = 0
) -> list[tuple[float, float]]:
    """What the batches ``numbers`` drew."""
    drawn = []
    for number in numbers:
        with ahead.asked(number, trained=trained):
            drawn.append(draw())
    return drawn


def test_each_batch_is_drawn_again_as_it_was() -> None:
    """Of those that are not trained yet; after the last of them it is as it stands now."""
    ahead = Ahead()
    drawn = asked(ahead, range(LOOKED_AT + 9), trained=4)
    assert ahead.at(4) is not None
    assert not ahead.shared
    for number in (4, 9, LOOKED_AT + 8):
        put(ahead.at(number))
        assert draw() == drawn[number]
    now = ahead.at(LOOKED_AT + 9)
    assert now is not None
    assert python_random.same(now, python_random.state())


def test_a_batch_that_is_asked_for_while_a_snapshot_is_taken_waits() -> None:
    """What it draws is not in the state that was read before it."""
    eager, asking = random.Random(5), threading.Event()  # noqa: S311  # no secret
    main = threading.current_thread()

    def ask(number: int, *, ready: threading.Event | None = None) -> None:
        if ready is not None:
            ready.wait(5.0)
        with ahead.asked(number, trained=1):
            eager.random()

    def framework() -> python_random.State:
        if ahead_began.is_set() and threading.current_thread() is main:
            asking.set()
            thread.join(0.2)
        return {"eager": eager.getstate()}

    ahead, ahead_began = Ahead(framework), threading.Event()
    ask(0)
    before = eager.getstate()
    thread = threading.Thread(target=ask, args=[1], kwargs={"ready": asking})
    thread.start()
    ahead_began.set()
    now = ahead.at(1)
    thread.join()
    assert now == {"eager": before}
    assert eager.getstate() != before


def test_who_draws_nothing_is_not_asked_for_long() -> None:
    """And the generators stand as they stand: a callback may draw from them."""
    ahead = Ahead()
    for number in range(LOOKED_AT + 3):
        draw()
        with ahead.asked(number, trained=0):
            pass
    assert not ahead.draws
    assert ahead.at(2) is None


def test_two_who_draw_are_told() -> None:
    """Who comes first is a matter of timing."""
    ahead = Ahead()
    asked(ahead, range(2))
    draw()
    asked(ahead, range(2, 4))
    assert ahead.shared


def test_what_changes_at_a_later_question_is_nobodys() -> None:
    """A callback may have drawn just then: what it drew is not taken for the data's."""
    ahead = Ahead()
    for number in range(3):
        with ahead.asked(number, trained=0):
            if number == 2:
                draw()
    assert ahead.shared
    assert ahead.at(1) is None


def test_draws_of_training_are_told_with_the_next_snapshot() -> None:
    """Though no batch was asked for since: those that wait were asked for before."""
    ahead = Ahead()
    asked(ahead, range(4))
    assert ahead.at(2) is not None
    assert not ahead.shared
    draw()
    assert ahead.at(2) is not None
    assert ahead.shared


def test_what_draws_between_two_passes_is_no_other() -> None:
    """A data set's own ``on_epoch_end``, or a callback's."""
    ahead = Ahead()
    asked(ahead, range(2))
    draw()
    ahead.begin()
    asked(ahead, range(2))
    assert not ahead.shared


def test_what_the_framework_drew_ahead_belongs_to_a_batch() -> None:
    """Each batch is drawn again as it was; what the data do not draw from stays as it
    stands, as it is training that has moved it."""
    eager, steps = random.Random(5), random.Random(6)  # noqa: S311  # no secret
    ahead = Ahead(
        lambda: {"eager": eager.getstate(), "steps": steps.getstate(), "none": None}
    )
    drawn = []
    for number in range(LOOKED_AT + 5):
        with ahead.asked(number, trained=2):
            drawn.append(eager.random())
        steps.random()
    for number in (2, 7, LOOKED_AT + 4):
        kept = ahead.at(number)
        assert kept is not None
        assert list(kept) == ["eager"]
        again = random.Random()  # noqa: S311  # no secret
        again.setstate(kept["eager"])
        assert again.random() == drawn[number]
    assert not ahead.shared
    eager.random()
    ahead.at(7)
    assert ahead.shared


def test_a_step_that_draws_while_data_are_asked_for_is_no_reason() -> None:
    """Of the framework's generators the first question alone tells."""
    eager = random.Random(5)  # noqa: S311  # no secret
    ahead = Ahead(lambda: {"eager": eager.getstate()})
    for number in range(4):
        with ahead.asked(number, trained=0):
            if number:
                eager.random()
    assert ahead.at(2) is None
    assert not ahead.shared


def test_data_that_draw_from_some_pass_on() -> None:
    """Many augment after some epochs: the first question of a pass tells, too."""
    eager = random.Random(5)  # noqa: S311  # no secret
    ahead = Ahead(lambda: {"eager": eager.getstate()})
    for number in range(3):
        with ahead.asked(number, trained=0):
            pass
    assert ahead.at(2) is None
    ahead.begin()
    drawn = []
    for number in range(3):
        with ahead.asked(number, trained=0):
            drawn.append((draw(), eager.random()))
    for number in (0, 2):
        kept = ahead.at(number)
        put(kept)
        assert kept is not None
        eager.setstate(kept["eager"])
        assert (draw(), eager.random()) == drawn[number]
        ahead.at(2)


@pytest.mark.parametrize("kind", ["MT19937", "PCG64"])
def test_a_batch_to_measure_with_draws_nothing(kind: str) -> None:
    """Whichever bit generator NumPy was given."""
    numpy: Any = np.random  # its stubs lack these names
    bits = numpy.get_bit_generator()
    numpy.set_bit_generator(getattr(np.random, kind)(1))
    try:
        before = python_random.state()
        with python_random.untouched():
            first = draw()
            assert not python_random.same(before, python_random.state())
        assert python_random.same(before, python_random.state())
        assert draw() == first
    finally:
        numpy.set_bit_generator(bits)
