"""A row a function: loops of the script's own, in a session."""

import random

import keras
import numpy as np
import tensorflow as tf
from ingredients import BATCH, N, make, pipeline, seeded
from prelude import Writer, digest, finish, number_of, place

layers = keras.layers


def own_loop():
    from trainers.session import session

    x, y = seeded()
    model = make(
        layers.Dense(8, "relu"),
        layers.BatchNormalization(),
        layers.Dropout(0.3),
        layers.Dense(4),
    )
    optimizer = keras.optimizers.Adam(0.01)
    mean = keras.metrics.Mean()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses, rng, writer = [], np.random.default_rng(3), Writer(number_of(model))

    @tf.function
    def train_step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        mean.update_state(loss)
        return loss

    data = pipeline(x, y).shuffle(N).batch(BATCH).prefetch(2)
    with session(
        model=model, optimizer=optimizer, mean=mean, losses=losses, rng=rng
    ) as run:
        for fit, epochs in enumerate((4, 2)):
            if fit:
                place("between:1")
            for epoch in run.epochs(epochs):
                place(f"epoch_begin:{fit}:{epoch}")
                for batch, (a, b) in enumerate(run.batches(data)):
                    writer.before(model)
                    place(f"step:{fit}:{epoch}:{run.step}")
                    loss = float(train_step(a, b))
                    losses.append([loss, rng.random(), random.random()])
                    writer.after(model, fit=fit, epoch=epoch, batch=batch)
                    run.log(loss=loss)
                place(f"epoch_end:{fit}:{epoch}")
                run.kept["best"] = min(run.kept.get("best", 9.0), float(mean.result()))
            losses.append(["between", random.random()])
        best, steps = run.kept["best"], run.step
    finish(
        model,
        losses=losses,
        best=best,
        steps=steps,
        other=digest([*optimizer.variables, *mean.variables]),
    )


def own_loop_hidden_state():
    from trainers.session import session

    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    writer = Writer(number_of(model))

    @tf.function
    def noisy_step(a, b):
        a = tf.concat(
            [a[:, :-1] + 0.1 * tf.random.normal(tf.shape(a[:, :-1])), a[:, -1:]], 1
        )
        with tf.GradientTape() as tape:
            loss = loss_of(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    data = pipeline(x, y).shuffle(N).map(lambda a, b: (a, b)).batch(BATCH)
    with session(model=model, optimizer=optimizer) as run:
        for step, (a, b) in run.steps(data, epochs=3):
            writer.before(model)
            place(f"step:0:{run.epoch}:{step}")
            noisy_step(a, b)
            writer.after(model, fit=0, epoch=run.epoch, batch=step)
    finish(model)


def own_loop_steps():
    from trainers.session import session

    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    seen, count = {}, tf.Variable(0)
    batches = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, N, BATCH)]
    writer = Writer(number_of(model))
    with session(model=model, optimizer=optimizer, seen=seen, count=count) as run:
        for step, (a, b) in run.steps(batches, epochs=3):
            writer.before(model)
            place(f"step:0:{run.epoch}:{step}")
            with tf.GradientTape() as tape:
                loss = loss_of(b, model(a, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            seen[step] = float(loss)
            count.assign_add(2)
            writer.after(model, fit=0, epoch=run.epoch, batch=step)
    finish(
        model,
        counted=[sorted(seen.items()), int(count)],
        other=digest(optimizer.variables),
    )
