"""A row a function: loops of the script's own that know nothing of a session."""

import random

import keras
import numpy as np
import tensorflow as tf
from ingredients import BATCH, N, compiled, make, noisy, pipeline, samples, seeded
from prelude import Writer, digest, finish, number_of, place, train

layers = keras.layers


def loss_of():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def step_of(model, optimizer, *more, **options):
    """A compiled step; ``more``: metrics of its loss."""
    error = loss_of()

    @tf.function(**options)
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = error(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        for metric in more:
            metric.update_state(loss)
        return loss

    return step


def network():
    return make(
        layers.Dense(8, "relu"),
        layers.BatchNormalization(),
        layers.Dropout(0.3),
        layers.Dense(4),
    )


def looped(model, data, step, *, epochs=3, fit=0, after=lambda epoch: None):
    """The losses of ``step`` over ``data``, and what ``after`` each epoch gives."""
    writer, losses, done = Writer(number_of(model)), [], 0
    for epoch in range(epochs):
        place(f"epoch_begin:{fit}:{epoch}")
        for batch, (a, b) in enumerate(data):
            writer.before(model)
            place(f"step:{fit}:{epoch}:{done}")
            losses.append([float(step(a, b)), random.random()])
            writer.after(model, fit=fit, epoch=epoch, batch=batch)
            done += 1
        losses.append(after(epoch))
    cool_down(model, data, step, fit=fit, epoch=epochs)
    return losses


def cool_down(model, data, step, *, fit, epoch):
    """Two steps that nobody is killed in: a drain is over at the next one at the latest."""
    writer = Writer(number_of(model))
    for batch, (a, b) in enumerate(data.take(2)):
        writer.before(model)
        step(a, b)
        writer.after(model, fit=fit, epoch=epoch, batch=batch)


def shuffled(x, y):
    return pipeline(x, y).shuffle(N).batch(BATCH).prefetch(2)


def followed_tape():
    x, y = seeded()
    model = network()
    optimizer, mean = keras.optimizers.Adam(0.01), keras.metrics.Mean()

    def after(_epoch):
        value = float(mean.result())
        mean.reset_state()
        return value

    step = step_of(model, optimizer, mean)
    losses = looped(model, shuffled(x, y), step, after=after)
    finish(model, losses=losses, other=digest([*optimizer.variables, *mean.variables]))


def followed_validation():
    x, y = seeded()
    model, optimizer, best = network(), keras.optimizers.SGD(0.1, 0.9), [9.0, None]
    error = loss_of()
    held, classes = samples(24, seed=5)

    @tf.function
    def validate(a, b):
        return error(b, model(a, training=False))

    def after(epoch):
        loss = float(validate(held, classes))
        eager = float(tf.reduce_sum(model(held, training=False)))
        if loss < best[0]:
            best[:] = [loss, model.get_weights()]
        optimizer.learning_rate = 0.1 / (epoch + 2)
        return [loss, eager, float(optimizer.learning_rate)]

    losses = looped(model, shuffled(x, y), step_of(model, optimizer), after=after)
    finish(
        model, losses=losses, best=digest(best[1]), other=digest(optimizer.variables)
    )


def followed_train_on_batch():
    x, y = seeded()
    model = noisy()
    losses = looped(model, shuffled(x, y), lambda a, b: model.train_on_batch(a, b)[0])
    finish(model, losses=losses)


def followed_on_batch():
    x, y = seeded()
    model = noisy()
    held, classes = samples(24, seed=5)

    def after(_epoch):
        tested = model.test_on_batch(held, classes)
        return [*map(float, tested), digest([model.predict_on_batch(held)])]

    step = lambda a, b: model.train_on_batch(a, b, return_dict=True)["loss"]
    finish(model, losses=looped(model, shuffled(x, y), step, after=after))


def followed_gan():
    x, y = seeded()
    model = network()
    maker = keras.Sequential(
        [keras.Input((3,)), layers.Dense(8, "relu"), layers.Dense(5)]
    )
    ours, theirs = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.02)
    error, seeds = loss_of(), keras.random.SeedGenerator(4)
    judge = step_of(model, ours)

    @tf.function
    def forge(a, b):
        with tf.GradientTape() as tape:
            made = maker(keras.random.normal((BATCH, 3), seed=seeds), training=True)
            judged = model(tf.concat([made, a[:, -1:]], 1), training=False)
            loss = error(1 - b, judged)
        gradients = tape.gradient(loss, maker.trainable_variables)
        theirs.apply_gradients(zip(gradients, maker.trainable_variables))
        return loss, made[0]

    made = []

    def step(a, b):
        loss, one = forge(a, b)
        made.append([float(loss), *map(float, one)])
        return judge(a, b)

    losses = looped(model, shuffled(x, y), step)
    other = [*maker.variables, *ours.variables, *theirs.variables, seeds.state]
    finish(model, losses=losses, made=made, other=digest(other))


def followed_saves():
    x, y = seeded()
    model = make(layers.Dense(512, "relu"), layers.Dense(600, "relu"))
    optimizer = keras.optimizers.SGD(0.01, 0.9)
    held = tf.train.Checkpoint(model=model, optimizer=optimizer)
    manager = tf.train.CheckpointManager(held, "kept", max_to_keep=2)

    def after(epoch):
        model.save_weights(f"epoch-{epoch}.weights.h5")
        model.save("newest.keras")
        return manager.save()

    losses = looped(model, shuffled(x, y), step_of(model, optimizer), after=after)
    newest = digest(keras.saving.load_model("newest.keras").get_weights())
    model.load_weights("epoch-1.weights.h5")
    finish(model, losses=losses, newest=newest, other=digest(optimizer.variables))


def followed_evaluated():
    x, y = seeded()
    model = noisy()
    held, classes = samples(24, seed=5)
    kept = pipeline(held, classes).shuffle(24).batch(8)

    def after(_epoch):
        evaluated = model.evaluate(kept, verbose=0)
        named = model.evaluate(held, classes, verbose=0, return_dict=True)
        return [
            evaluated,
            sorted(named.items()),
            digest([model.predict(held, verbose=0)]),
        ]

    step = lambda a, b: model.train_on_batch(a, b)[0]
    finish(model, losses=looped(model, shuffled(x, y), step, after=after))


def followed_two_loops():
    x, y = seeded()
    first, second = network(), noisy()
    losses = looped(first, shuffled(x, y), step_of(first, keras.optimizers.Adam(0.01)))
    place("between:1")
    step = step_of(second, keras.optimizers.SGD(0.1, 0.9))
    losses += looped(second, shuffled(x, y), step, fit=1)
    finish(second, losses=losses, first=digest(first.variables))


def followed_after_fit():
    x, y = seeded()
    model = noisy()
    optimizer = keras.optimizers.SGD(0.05, 0.9)
    step = step_of(model, optimizer)
    losses = looped(model, shuffled(x, y), step, epochs=2, fit=100)
    train(model, x, y, batch_size=BATCH, epochs=2)
    losses += looped(model, shuffled(x, y), step, epochs=3, fit=101)
    finish(model, losses=losses, other=digest(optimizer.variables))


def followed_accumulation():
    x, y = seeded()
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    error = loss_of()
    total = [
        tf.Variable(tf.zeros(v.shape), trainable=False)
        for v in model.trainable_variables
    ]

    @tf.function
    def add(a, b):
        with tf.GradientTape() as tape:
            loss = error(b, model(a, training=True)) / 2
        for held, one in zip(total, tape.gradient(loss, model.trainable_variables)):
            held.assign_add(one)
        return loss

    @tf.function
    def update():
        optimizer.apply_gradients(
            zip([v + 0.0 for v in total], model.trainable_variables)
        )
        for held in total:
            held.assign(tf.zeros_like(held))

    count = []

    def step(a, b):
        loss = add(a, b)
        count.append(1)
        if len(count) % 2 == 0:
            update()
        return loss

    losses = looped(model, shuffled(x, y), step)
    finish(model, losses=losses, other=digest([*optimizer.variables, *total]))


def followed_retraced():
    x, y = seeded()
    model, optimizer = network(), keras.optimizers.SGD(0.1, 0.9)
    data = pipeline(x[:93], y[:93]).shuffle(N).batch(BATCH)
    finish(model, losses=looped(model, data, step_of(model, optimizer)))


def followed_jit():
    x, y = seeded()
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    step = step_of(model, optimizer, jit_compile=True)
    losses = looped(model, shuffled(x, y), step)
    finish(model, losses=losses, other=digest(optimizer.variables))


def followed_mixed():
    x, y = seeded()
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    model = noisy(optimizer=keras.optimizers.Adam(0.01))
    keras.mixed_precision.set_dtype_policy("float32")
    losses = looped(model, shuffled(x, y), lambda a, b: model.train_on_batch(a, b)[0])
    finish(model, losses=losses)


def followed_unseeded():
    x, y = samples()
    order = np.random.permutation(N)
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    data = shuffled(x[order], y[order])
    losses = looped(model, data, step_of(model, optimizer))
    finish(model, losses=losses, other=digest(optimizer.variables))


def followed_policy():
    """Decides by what it reads: early stopping, weights put back, a rate by the loss."""
    x, y = seeded()
    model, optimizer = network(), keras.optimizers.SGD(0.3, 0.9)
    step, mean, data = step_of(model, optimizer), keras.metrics.Mean(), shuffled(x, y)
    writer, told, kept, worst = Writer(number_of(model)), [], None, 9.0
    for epoch in range(5):
        place(f"epoch_begin:0:{epoch}")
        for batch, (a, b) in enumerate(data):
            writer.before(model)
            place(f"step:0:{epoch}:{batch}")
            loss = step(a, b)
            mean.update_state(loss)
            if loss > 0.9:
                optimizer.learning_rate.assign(optimizer.learning_rate * 0.7)
            writer.after(model, fit=0, epoch=epoch, batch=batch)
        value = float(mean.result())
        mean.reset_state()
        if value < worst:
            worst, kept = value, [one.numpy() for one in model.trainable_variables]
        else:
            for one, then in zip(model.trainable_variables, kept):
                one.assign(then)
        told.append([value, int(optimizer.iterations), float(optimizer.learning_rate)])
    cool_down(model, data, step, fit=0, epoch=5)
    finish(model, losses=told, other=digest(optimizer.variables))


def followed_target_network():
    x, y = seeded()
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    target = keras.models.clone_model(model)
    target.set_weights(model.get_weights())
    step, count = step_of(model, optimizer), []

    def both(a, b):
        loss = step(a, b)
        count.append(1)
        if len(count) % 5 == 0:
            target.set_weights(model.get_weights())
        for held, one in zip(target.trainable_variables[:2], model.trainable_variables):
            held.assign(0.9 * held + 0.1 * one)
        return loss

    losses = looped(model, shuffled(x, y), both)
    finish(
        model, losses=losses, other=digest([*target.variables, *optimizer.variables])
    )


def followed_several_results():
    x, y = seeded()
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    error, told = loss_of(), []

    @tf.function
    def step(batch, scale=1.0, more=None):
        with tf.GradientTape() as tape:
            predicted = model(batch["x"], training=True)
            loss = scale * error(batch["y"], predicted)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return {"loss": loss, "predicted": predicted, "none": None}, [
            tf.shape(predicted),
            3,
        ]

    def one(a, b):
        named, (shape, three) = step(
            {"x": a, "y": b}, scale=0.5 if len(told) % 2 else 1.0
        )
        told.append([digest([named["predicted"]]), *map(int, shape), int(three)])
        return named["loss"]

    finish(model, losses=looped(model, shuffled(x, y), one), told=told)


def followed_hidden_state():
    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    error = loss_of()

    @tf.function
    def noisy_step(a, b):
        noise = 0.1 * tf.random.normal(tf.shape(a[:, :-1]))
        with tf.GradientTape() as tape:
            loss = error(
                b, model(tf.concat([a[:, :-1] + noise, a[:, -1:]], 1), training=True)
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    finish(model, losses=looped(model, shuffled(x, y), noisy_step))


def followed_eager():
    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    error = loss_of()

    def step(a, b):
        with tf.GradientTape() as tape:
            loss = error(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    finish(model, losses=looped(model, shuffled(x, y), step, epochs=2))


def followed_python_inside():
    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    error, draws = loss_of(), random.Random(3)

    @tf.function
    def step(a, b):
        weight = tf.numpy_function(lambda: np.float32(draws.random()), [], tf.float32)
        with tf.GradientTape() as tape:
            loss = weight * error(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    finish(model, losses=looped(model, shuffled(x, y), step))


def followed_own_iterator():
    """The step draws its batch itself: what is not computed does not draw."""
    x, y = seeded()
    model, optimizer = make(layers.Dense(8, "relu")), keras.optimizers.SGD(0.1, 0.9)
    compiled(model, optimizer=optimizer)
    error, data = loss_of(), shuffled(x, y).repeat()
    writer, source, losses = Writer(number_of(model)), iter(data), []

    @tf.function
    def step(source):
        a, b = next(source)
        with tf.GradientTape() as tape:
            loss = error(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for number in range(24):
        writer.before(model)
        place(f"step:0:{number // 8}:{number}")
        losses.append(float(step(source)))
        writer.after(model, fit=0, epoch=number // 8, batch=number % 8)
    finish(model, losses=losses)
