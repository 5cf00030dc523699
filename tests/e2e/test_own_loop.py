"""A loop of the script's own, ended on request: what is said of it is true."""

import signal

from tests.support.command import Trainwarden

LOOP = """
import time
import keras, tensorflow as tf

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
optimizer = keras.optimizers.Adam()
while True:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((8, 4))) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    time.sleep(0.05)
"""


def test_a_drain_of_what_is_not_saved(trainwarden: Trainwarden) -> None:
    """Nobody is told to run it again to resume where it would begin anew."""
    process = trainwarden.start("run", trainwarden.script(LOOP))
    trainwarden.until(lambda status: bool(status["step"]))
    assert "outside of fit" in trainwarden("status").stdout
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 75, said
    assert "nothing is saved" in said
    assert "from its top" in said
    assert "run the same command again to resume" not in said
