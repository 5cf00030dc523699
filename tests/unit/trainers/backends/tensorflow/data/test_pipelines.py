"""tf.data pipelines: put where they were, made repeatable, told where they cannot be."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat, pipelines

data = tf.data.Dataset
N = 24

Maker = Callable[[], Any]


def shuffled() -> Any:
    """Numbers in a new order each time."""
    return data.range(N).shuffle(N)


MAKERS: dict[str, Maker] = {
    "one shuffle": shuffled,
    "a shuffle of a shuffle": lambda: shuffled().shuffle(5),
    "repeated below a shuffle": lambda: shuffled().repeat(2).shuffle(4),
    "repeated above two": lambda: shuffled().shuffle(6).repeat(3),
    "repeated, not fused": lambda: shuffled().take(9).repeat(2),
    "repeated concatenation": lambda: shuffled().concatenate(shuffled()).repeat(2),
    "a part of it, repeated": lambda: shuffled().shuffle(3).take(9).repeat(3),
    "concatenated": lambda: shuffled().concatenate(shuffled()).shuffle(3),
    "cached below": lambda: shuffled().cache().shuffle(3),
    "cached inside": lambda: data.zip(
        (shuffled().cache().repeat(2), shuffled().shuffle(3).repeat(2))
    ),
    "cached above": lambda: shuffled().shuffle(3).cache().repeat(2).batch(5),
    "side by side": lambda: data.zip((shuffled(), shuffled().shuffle(3).repeat(2))),
    "interleaved": lambda: (
        data.range(4)
        .shuffle(4)
        .interleave(lambda i: data.range(N).shard(4, i), num_parallel_calls=2)
        .shuffle(9)
        .map(lambda x: x + 1, num_parallel_calls=3)
    ),
    "the same order each time": lambda: (
        data.range(N).shuffle(2, reshuffle_each_iteration=False).shuffle(3)
    ),
    "mapped and repeated": lambda: shuffled().map(lambda x: x + 1).repeat(2).shuffle(3),
}


STAGES = {"one shuffle", "cached above", "interleaved"}
"""Those of which the others are made."""


def numbers(dataset: Any) -> list[int]:
    """Everything in it, in order."""
    return [
        int(value)
        for element in dataset
        for leaf in tf.nest.flatten(element)
        for value in tf.reshape(leaf, [-1])
    ]


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    """No seed of a test is left to the next."""
    yield
    tf.random.set_seed(None)


def seeded(maker: Maker) -> Any:
    """A pipeline as a script that seeds globally makes it."""
    tf.random.set_seed(3)
    return maker()


UNUSED = [
    pytest.param(2, 0, name, marks=() if name in STAGES else pytest.mark.slow)
    for name in MAKERS
]


@pytest.mark.parametrize(
    ("made", "used", "name"), [*((3, 2, name) for name in MAKERS), *UNUSED]
)
def test_the_next_time_has_the_order_it_would_have(
    name: str, made: int, used: int
) -> None:
    """After so many iterators made, and so many of them used to their end."""
    whole = seeded(MAKERS[name])
    for _ in range(used):
        numbers(whole)
    for _ in range(made - used):
        iter(whole)
    again = seeded(MAKERS[name])
    pipelines.replay(again, made=made, used=used)
    assert numbers(again) == numbers(whole)


@pytest.mark.parametrize("name", MAKERS)
def test_a_batch_to_measure_with_changes_no_order(name: str) -> None:
    """It comes from a copy that shares neither shuffles nor caches."""
    looked_at = seeded(MAKERS[name])
    batch = pipelines.a_batch(looked_at)
    assert batch is not None
    untouched = seeded(MAKERS[name])
    for _ in range(2):
        assert numbers(looked_at) == numbers(untouched)


def random_map(x: Any) -> Any:
    """Draws from a state that nobody can read."""
    return x + tf.random.uniform([], maxval=9, dtype=tf.int64)


def seeded_map(x: Any) -> Any:
    """The same, with a seed."""
    return x + tf.random.uniform([], maxval=9, dtype=tf.int64, seed=3)


def test_what_is_not_exact_is_told() -> None:
    """Each kind has its sentence; a pipeline that is exact has none."""
    variable = tf.Variable(0, dtype=tf.int64)

    def counts(x: Any) -> Any:
        return x + variable.assign_add(1)

    def calls(x: Any) -> Any:
        return tf.numpy_function(lambda y: y, [x], tf.int64)

    numbered = data.range(9)
    told = {
        pipelines.IN_PARALLEL: numbered.map(random_map, num_parallel_calls=2),
        pipelines.CHANGES: numbered.map(counts).batch(2),
        pipelines.CALLS_PYTHON: numbered.map(calls).prefetch(1),
        pipelines.UNSEEDED: numbered.shuffle(3).repeat(),
        pipelines.WITHOUT_SEED: numbered.map(random_map).batch(2),
        None: numbered.map(seeded_map).shuffle(3, seed=1).batch(2),
    }
    for sentence, dataset in told.items():
        assert pipelines.why_not_exact(dataset) == sentence


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[str]]]:
    """``install`` for one test: takes the job's seed, returns what is told."""
    kind = data_compat.dataset_class()
    for name in pipelines.ORDERED:
        if hasattr(kind, name):
            monkeypatch.setattr(kind, name, getattr(kind, name))
    original: list[Any] = []

    def install(seed: int) -> list[str]:
        told: list[str] = []
        original.append(data_compat.replace_get_seed(None))
        data_compat.replace_get_seed(original[0])
        pipelines.install(seed=seed, notice=told.append)
        return told

    yield install
    data_compat.replace_get_seed(original[0])


def test_a_shuffle_without_a_seed_has_the_jobs(
    installed: Callable[[int], list[str]],
) -> None:
    """The same order for the same job in each process, another for another job, and
    still another each time; two shuffles made by one line differ."""

    def orders(seed: int) -> list[list[int]]:
        installed(seed)
        made = [shuffled() for _ in range(2)]
        return [numbers(one) for one in made for _ in range(2)]

    first = orders(1)
    assert first == orders(1)
    assert first != orders(2)
    assert len({tuple(order) for order in first}) == 4


def test_an_order_that_depends_on_speed_is_not_taken(
    installed: Callable[[int], list[str]],
) -> None:
    """``deterministic=False`` and the option of that name give way, and that is told."""
    told = installed(1)
    loose = data.range(N).map(lambda x: x, num_parallel_calls=4, deterministic=False)
    loose = loose.map(lambda x: x, num_parallel_calls=4, deterministic=False)
    options = tf.data.Options()
    options.deterministic = False
    strict = pipelines.in_order(loose.with_options(options))
    assert strict.options().deterministic is True
    assert numbers(strict) == list(range(N))
    assert told == [pipelines.IN_ORDER]
