"""Data that two fits share and that none comes to the end of: drawn again, and told."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.certify.certify import CertifyTrial
from tests.certify.places import Death
from tests.certify.table import TABLE
from tests.support.zygote import Zygote
from trainers.backends.tensorflow.data import pipelines
from trainers.data import shared_data

data = tf.data.Dataset
N = 24


def shuffled() -> Any:
    """Numbers in a new order each time."""
    return data.range(N).shuffle(N)


ENDLESS: dict[str, tuple[Callable[[], Any], int]] = {
    "repeated": (lambda: shuffled().repeat(), 30),
    "in batches": (lambda: shuffled().repeat().batch(4), 13),
    "not fused": (lambda: shuffled().map(lambda x: x).repeat().batch(4), 7),
    "shuffled again": (lambda: shuffled().repeat().shuffle(3), 34),
}


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    """No seed of a test is left to the next."""
    yield
    tf.random.set_seed(None)


def seeded(maker: Callable[[], Any]) -> Any:
    """A pipeline as a script that seeds globally makes it.

    It reads no further ahead than its stages do: what tf.data prefetches of its own
    accord depends on timing, and may begin the next pass of a shuffle or not.
    """
    tf.random.set_seed(3)
    steady = tf.data.Options()
    steady.experimental_optimization.inject_prefetch = False
    return maker().with_options(steady)


def numbers(dataset: Any, count: int) -> list[Any]:
    """The first ``count`` elements."""
    return [element.numpy().tolist() for element in dataset.take(count)]


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_pipeline_goes_on_after_what_was_drawn(name: str) -> None:
    """In the middle of a pass, where no buffer of a stage reaches into the next."""
    maker, drawn = ENDLESS[name]
    whole = seeded(maker)
    for _, _ in zip(range(drawn), whole, strict=False):
        pass
    again = seeded(maker)
    pipelines.replay(again, made=1, used=1, drawn=drawn)
    assert numbers(again, 20) == numbers(whole, 20)


def test_a_part_of_an_endless_pipeline_is_drawn_to_its_end() -> None:
    """``take`` after ``repeat``: each time begins the shuffle more than once."""

    def make() -> Any:
        return shuffled().repeat().take(60)

    whole = seeded(make)
    for _ in range(2):
        numbers(whole, 60)
    iter(whole)
    again = seeded(make)
    pipelines.replay(again, made=3, used=2)
    assert numbers(again, 60) == numbers(whole, 60)


def test_what_goes_on_from_fit_to_fit_is_told_from_the_second_on() -> None:
    """Also where another pipeline is made of the same shuffle; not for whole passes."""
    endless = shuffled().repeat()
    assert shared_data.why_not_exact(endless.batch(3)) is None
    told = shared_data.why_not_exact(endless.batch(4))
    assert told is not None
    assert "repeats a shuffle without end" in told
    generator = iter(x for x in range(9))
    assert shared_data.why_not_exact(generator) is None
    assert "Python generator" in str(shared_data.why_not_exact(generator))
    for finite in (shuffled().repeat(2), data.range(3).repeat(), [1, 2], None):
        assert shared_data.why_not_exact(finite) is None
        assert shared_data.why_not_exact(finite) is None


def test_a_generator_is_drawn_to_where_a_fit_left_it() -> None:
    """What Keras looked at is gone already."""
    for drawn, following in ((5, 5), (1, 2)):
        generator = (x for x in range(9))
        looked_at = [next(generator), next(generator)]
        shared_data.draw(generator, drawn=drawn, looked_at=len(looked_at))
        assert next(generator) == following


def test_data_of_the_validation_are_asked_as_well() -> None:
    """A generator, and a pipeline that calls Python; arrays are exact."""
    asked = shared_data.validation_why_not_exact
    assert asked(x for x in range(3)) == shared_data.VALIDATION_GENERATOR
    calls = data.range(3).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64))
    assert str(asked(calls)).startswith("validation: the tf.data pipeline calls Python")
    assert asked(seeded(shuffled)) is None
    assert asked((1, 2)) is None


def test_a_loop_that_leaves_endless_data_is_told() -> None:
    """A whole pass of something repeated is none of these."""
    asked = shared_data.loop_why_not_exact
    assert asked(shuffled().repeat().batch(3)) == shared_data.LOOP
    assert asked(shuffled().repeat().take(9)) is None
    assert asked([1]) is None


@pytest.mark.slow
def test_killed_in_the_second_fit_on_an_endless_pipeline(
    tmp_path: Path, zygote: Zygote
) -> None:
    """The first is given back, and the second goes on with the samples it had; told is
    that this was not promised."""
    row = next(row for row in TABLE if row.name == "tf_repeat_twice")
    whole = CertifyTrial(zygote, row, tmp_path / "whole")
    assert whole.run(plain=True) == 0, whole.output()
    torn = CertifyTrial(zygote, row, tmp_path / "torn")
    assert torn.run(death=Death(where="step:1:1:2", how="KILL")) == -signal.SIGKILL
    assert torn.run() == 0, torn.output()
    assert torn.result() == whole.result()
    assert any("without coming to its end" in sentence for sentence in torn.told)
