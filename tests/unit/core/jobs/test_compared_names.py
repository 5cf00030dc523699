"""What differs between two runs, in the words of who wrote the script."""

from supervisor.core.jobs.compared_names import NAMED, in_words

CLOCK = (
    "callbacks[0].attributes.history.loss[0]",
    "callbacks[0].attributes.history.loss[1]",
    "callbacks[1].attributes.seen",
    "callbacks[1].kind",
    "local.data.rows[0]",
    "local.data.rows[1]",
    "local.logs.loss.v",
    "local.position",
    "metric:loss/total",
    "model:sequential/dense/bias",
    "model:sequential/dense/kernel",
    "optimizer:sgd/learning_rate",
    "file out.csv",
    "how many steps fit 1 took",
)


def test_what_a_person_knows_is_named() -> None:
    """No path of a run's state, and each kind once, in the order in which it comes."""
    assert in_words(CLOCK) == [
        "History (loss)",
        "attributes of callbacks (seen)",
        "callbacks",
        "training data",
        "logs of the epoch (loss)",
        "where training stands",
        "metrics (loss/total)",
        "weights (sequential/dense/bias, sequential/dense/kernel)",
        "optimizer (sgd/learning_rate)",
        "file out.csv",
        "how many steps fit 1 took",
    ]


def test_of_several_fits_each_is_told() -> None:
    """The number stays with what it is of."""
    found = in_words(("model:a (fit 0)", "local.data.rows[3] (fit 1)"))
    assert found == ["weights (fit 0) (a)", "training data (fit 1)"]


def test_there_may_be_many_of_a_kind() -> None:
    """The first are named, the rest counted."""
    (told,) = in_words(f"model:v{number}" for number in range(NAMED + 3))
    assert told.endswith(f"v{NAMED - 1} and 3 more)")
