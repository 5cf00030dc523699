"""Scripts of which nothing can be measured before they train, and what is said of each."""

import pytest

from tests.support.command import Trainwarden

OWN_LOOP = """
import keras, tensorflow as tf
from pathlib import Path
w = tf.Variable(1.0)
optimizer = keras.optimizers.SGD(0.1)
try:
    for step in range(10):
        with tf.GradientTape() as tape:
            loss = w * w
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
except BaseException:  # a refusal must end the process all the same
    pass
Path("trained").touch()
"""

UNMEASURABLE = (
    pytest.param(OWN_LOOP, "a loop of its own", id="own loop", marks=pytest.mark.slow),
    pytest.param("print('nothing')", "without a call of model.fit", id="no fit"),
    pytest.param(
        "import keras\nraise ValueError('no data')",
        "ValueError: no data",
        id="fails",
        marks=pytest.mark.slow,
    ),
)
"""A script, and a part of the sentence; slow are those that import a framework."""


def check_is_refused(
    trainwarden: Trainwarden, command: str, text: str, sentence: str
) -> None:
    """``command`` of such a script says the sentence, and ends with 1; it shows no
    figures, trains no step, and leaves nothing."""
    done = trainwarden(command, trainwarden.script(text))
    assert done.returncode == 1, done.stdout
    assert sentence in done.stderr
    assert not done.stdout
    assert not (trainwarden.directory / "trained").exists()
    assert not list(trainwarden.state.iterdir())
