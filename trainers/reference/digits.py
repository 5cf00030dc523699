"""Handwritten digits with a small convolutional network: an ordinary Keras script.

It knows nothing of Trainwarden. The data are the 1,797 scans of 8 by 8 pixels that
scikit-learn ships (``sklearn.datasets.load_digits``), enlarged to 64 by 64 so that a
step needs a few hundred MiB, as the scripts of real life do.
"""

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

ENLARGED = 8
BATCH = 128
EPOCHS = 8

keras.utils.set_random_seed(8)

digits = load_digits()
enlarged = np.kron(digits.images / 16.0, np.ones((ENLARGED, ENLARGED)))
images = enlarged.astype("float32")[..., None]
x_train, x_test, y_train, y_test = train_test_split(
    images, digits.target, test_size=0.2, random_state=7, stratify=digits.target
)

model = keras.Sequential(
    [
        keras.Input(images.shape[1:]),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(4),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(x_train, y_train, batch_size=BATCH, epochs=EPOCHS, verbose=2)

_, accuracy = model.evaluate(x_test, y_test, batch_size=64, verbose=0)
print(f"test accuracy: {accuracy:.4f}")
