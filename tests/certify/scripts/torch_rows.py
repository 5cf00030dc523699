"""A row a function: Keras on PyTorch, its loaders, modules and generators."""

import keras
import numpy as np
from ingredients import (
    BATCH,
    N,
    WIDTH,
    Ledger,
    compiled,
    make,
    noisy,
    samples,
    seeded,
)
from prelude import digest, finish, train

layers, cb = keras.layers, keras.callbacks


def torch_arrays():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.2)
    finish(model)


def torch_quiet():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


def torch_tensors():
    import torch

    x, y = seeded()
    model = noisy(optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))
    train(model, torch.from_numpy(x), torch.from_numpy(y), batch_size=20, epochs=4)
    finish(model, drawn=float(torch.rand(())))


class Draws(layers.Layer):
    """Draws from PyTorch's own generator in each step."""

    def call(self, inputs, training=False):
        import torch

        return torch.nn.functional.dropout(inputs, 0.2, training=bool(training))

    def compute_output_shape(self, shape):
        return shape


def torch_batch_order():
    import torch

    x, y = seeded()
    model = make(layers.Dense(8, "relu"), Draws())
    train(model, x, y, batch_size=BATCH, epochs=4, shuffle="batch")
    finish(model, drawn=float(torch.rand(())))


def torch_steps_per_epoch():
    x, y = seeded()
    model = make(layers.Dense(8, "relu"), Draws())
    train(model, x, y, batch_size=BATCH, epochs=5, steps_per_epoch=5)
    finish(model)


# --- loaders ---------------------------------------------------------------------


def loader(x, y, **options):
    import torch

    rows = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    return torch.utils.data.DataLoader(rows, batch_size=BATCH, **options)


def torch_loader():
    x, y = seeded()
    model = noisy()
    train(
        model,
        loader(x, y, shuffle=True),
        epochs=4,
        validation_data=loader(x[:30], y[:30], shuffle=True),
    )
    finish(model)


def torch_loader_generator():
    import torch

    x, y = seeded()
    model = noisy()
    generator = torch.Generator().manual_seed(11)
    data = loader(x, y, shuffle=True, generator=generator)
    other = torch.Generator().manual_seed(12)
    held = loader(x[:30], y[:30], shuffle=True, generator=other)
    train(model, data, epochs=3, validation_data=held)
    torch.rand(3, generator=generator)
    train(model, data, epochs=2, validation_data=held)
    drawn = [float(torch.rand((), generator=one)) for one in (generator, other)]
    finish(model, drawn=drawn)


def torch_loader_weighted():
    import torch

    x, y = seeded()
    model = noisy()
    sampler = torch.utils.data.WeightedRandomSampler((y + 1.0).tolist(), N)
    data = loader(x[:-5], y[:-5], drop_last=True)
    train(model, data, epochs=1)
    train(model, loader(x, y, sampler=sampler, drop_last=True), epochs=4)
    finish(model)


def augmented(worker=False):
    import torch

    class Rows(torch.utils.data.Dataset):
        """Draws as it is asked."""

        def __init__(self):
            self.x, self.y = samples()
            self.own, self.asked = np.random.default_rng(4), 0

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            self.asked += 1
            row = self.x[index].copy()
            row[0] += 0.1 * np.random.rand() + 0.1 * self.own.random()
            row[1] += 0.1 * float(torch.rand(()))
            return row, self.y[index]

    return Rows()


def torch_loader_augments():
    seeded()
    import torch

    rows, model = augmented(), noisy()
    data = torch.utils.data.DataLoader(rows, batch_size=BATCH, shuffle=True)
    train(model, data, epochs=4)
    finish(model, asked=rows.asked, drawn=rows.own.random())


def torch_loader_workers():
    seeded()
    import torch

    rows, model = augmented(), noisy()
    data = torch.utils.data.DataLoader(
        rows, batch_size=BATCH, shuffle=True, num_workers=2
    )
    train(model, data, epochs=3)
    finish(model, drawn=float(torch.rand(())))


def torch_loader_persistent():
    x, y = seeded()
    model = noisy()
    data = loader(x, y, shuffle=True, num_workers=1, persistent_workers=True)
    train(model, data, epochs=3)
    finish(model)


def torch_loader_iterable():
    import torch

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            x, y = samples()
            yield from zip(x, y, strict=True)

    seeded()
    model = noisy()
    train(model, torch.utils.data.DataLoader(Rows(), batch_size=BATCH), epochs=4)
    finish(model)


class Backwards:
    """An order of its own."""

    def __iter__(self):
        return iter(np.random.permutation(N).tolist())

    def __len__(self):
        return N


def torch_loader_own_sampler():
    x, y = seeded()
    model = noisy()
    train(model, loader(x, y, sampler=Backwards()), epochs=4)
    finish(model)


# --- models ----------------------------------------------------------------------


class OwnStep(keras.Model):
    """Two optimizers in turn, and a count."""

    def __init__(self):
        super().__init__()
        self.ledger, self.dense = Ledger(), layers.Dense(2)
        self.drop, self.second = layers.Dropout(0.2), keras.optimizers.SGD(0.01, 0.9)
        self.steps = 0

    def build(self, shape):
        self.ledger.build(shape)
        self.dense.build((None, WIDTH))
        self.built = True

    def call(self, inputs, training=False):
        hidden = self.ledger(inputs, training=training)
        return self.drop(self.dense(hidden), training=training)

    def loss_of(self, data):
        x, y = data[:2]
        found = self(x, training=True)
        return self.compute_loss(x, y, found), found, y

    def train_step(self, data):
        import torch

        self.zero_grad()
        loss, found, y = self.loss_of(data)
        loss.backward()
        weights = self.trainable_weights
        self.steps += 1
        chosen = self.optimizer if self.steps % 3 else self.second
        with torch.no_grad():
            chosen.apply([one.value.grad for one in weights], weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, found)
        return {one.name: one.result() for one in self.metrics if one.name == "loss"}


def torch_train_step():
    x, y = seeded()
    model = OwnStep()
    compiled(model, optimizer=keras.optimizers.RMSprop(0.01))
    model.build((None, WIDTH + 1))
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model, steps=model.steps, second=digest(model.second.variables))


class AddsUp(OwnStep):
    def train_step(self, data):
        import torch

        loss, _found, _y = self.loss_of(data)
        loss.backward()
        self.steps += 1
        weights = self.trainable_weights
        if self.steps % 2 == 0:
            with torch.no_grad():
                self.optimizer.apply([one.value.grad for one in weights], weights)
            for one in weights:
                one.value.grad = None
        return {"loss": loss}


def torch_adds_up():
    x, y = seeded()
    model = AddsUp()
    compiled(model)
    model.build((None, WIDTH + 1))
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model, steps=model.steps)


class OtherOptimizer(OwnStep):
    def train_step(self, data):
        loss, _found, _y = self.loss_of(data)
        self.of_torch.zero_grad()
        loss.backward()
        self.of_torch.step()
        return {"loss": loss.detach()}


def torch_optimizer():
    import torch

    x, y = seeded()
    model = OtherOptimizer()
    compiled(model)
    model.build((None, WIDTH + 1))
    trained = [one.value for one in model.trainable_weights]
    model.of_torch = torch.optim.Adam(trained, lr=0.01)
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


def torch_modules():
    import torch

    class Centered(torch.nn.Module):
        """A buffer, a parameter and a plain number of its own."""

        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))
            self.scale = torch.nn.Parameter(torch.ones(8))
            self.inner = torch.nn.Linear(8, 8)
            self.calls = 0

        def forward(self, rows):
            if self.training and rows.device.type != "meta":
                self.calls += 1
                with torch.no_grad():
                    self.mean = 0.9 * self.mean + 0.1 * rows.mean(0)
            return self.inner(rows - self.mean) * self.scale * (1 + self.calls % 3)

    x, y = seeded()
    own = Centered()
    wrap = layers.TorchModuleWrapper
    shape = {"output_shape": (None, 8)}
    model = make(
        wrap(torch.nn.Linear(WIDTH, 8), **shape),
        wrap(torch.nn.BatchNorm1d(8), **shape),
        wrap(torch.nn.Dropout(0.2), **shape),
        wrap(own, **shape),
    )
    train(model, x, y, batch_size=BATCH, epochs=4, validation_split=0.0)
    finish(
        model,
        calls=own.calls,
        buffers=digest(
            one.detach() for layer in model.layers for one in layer.buffers()
        ),
    )


class Keeps(cb.Callback):
    """Tensors changed in place, and made anew; a generator; an average of weights."""

    def __init__(self):
        import torch

        super().__init__()
        self.generator = torch.Generator().manual_seed(3)
        self.total = torch.zeros(3)
        self.mean = torch.zeros((), dtype=torch.bfloat16)
        self.average, self.drawn = None, []

    def on_train_batch_end(self, batch, logs=None):
        import torch

        self.total += torch.rand(3, generator=self.generator)
        self.mean = 0.9 * self.mean + logs["loss"] * torch.rand(()).to(torch.bfloat16)
        now = [one.value.detach() for one in self.model.trainable_weights]
        if self.average is None:
            self.average = [one.clone() for one in now]
        for kept, one in zip(self.average, now, strict=True):
            kept.mul_(0.9).add_(one, alpha=0.1)


def torch_tensors_kept():
    x, y = seeded()
    model, keeps = noisy(), Keeps()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[keeps])
    finish(
        model,
        kept=digest([keeps.total, *keeps.average]),
        mean=float(keeps.mean),
    )


class Follows(cb.Callback):
    """A module that only this callback changes."""

    def __init__(self, module):
        super().__init__()
        self.follow = lambda weights: follow(module, weights)

    def on_train_batch_end(self, batch, logs=None):
        self.follow([one.value for one in self.model.trainable_weights])


def follow(module, weights):
    import torch

    with torch.no_grad():
        for kept, one in zip(module.parameters(), weights, strict=False):
            kept.mul_(0.9).add_(0.1 * one.mean())
        module(torch.rand(4, 5))


def torch_teacher():
    import torch

    x, y = seeded()
    model = noisy()
    teacher = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4))
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Follows(teacher)])
    finish(model, teacher=digest(one.detach() for one in teacher.state_dict().values()))


class Rates(cb.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        rate = self.model.optimizer.learning_rate
        rate.assign(0.01 / (1 + int(self.model.optimizer.iterations) % 7))


def torch_each_batch():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Rates()])
    finish(model)


class Tokens(layers.Layer):
    """Whole numbers for an embedding."""

    def call(self, inputs):
        return keras.ops.cast(keras.ops.abs(inputs) * 7, "int32") % 20


def torch_attention():
    keras.config.set_dtype_policy("mixed_bfloat16")
    x, y = seeded()
    entry = keras.Input((WIDTH + 1,))
    hidden = layers.Embedding(20, 8)(Tokens()(Ledger()(entry)))
    hidden = layers.MultiHeadAttention(2, 4, dropout=0.2)(hidden, hidden)
    hidden = layers.LSTM(6, recurrent_dropout=0.2)(layers.LayerNormalization()(hidden))
    model = keras.Model(entry, layers.Dense(2, dtype="float32")(hidden))
    compiled(model, optimizer=keras.optimizers.AdamW(0.01))
    train(model, x, y, batch_size=BATCH, epochs=3)
    finish(model)


def torch_early_stopping():
    x, y = seeded()
    model = noisy(optimizer=keras.optimizers.Adam(0.05))
    stop = cb.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
    plateau = cb.ReduceLROnPlateau("loss", patience=1, min_delta=0.1)
    best = cb.ModelCheckpoint(
        "best.weights.h5", save_best_only=True, save_weights_only=True
    )
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=8,
        validation_split=0.3,
        callbacks=[stop, plateau, best],
    )
    finish(model, callbacks=[stop, plateau], stopped=model.stop_training)


def torch_unseeded():
    import torch

    x, y = samples()
    x[:, :WIDTH] += 0.1 * torch.randn(N, WIDTH).numpy()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4)
    train(model, loader(x, y, shuffle=True), epochs=2)
    finish(model, drawn=float(torch.rand(())))


def torch_eager():
    x, y = seeded()
    model = noisy(run_eagerly=True, jit=False)
    train(model, x, y, batch_size=24, epochs=3)
    finish(model)


def torch_folds():
    x, y = seeded()
    for fold in range(4):
        held = np.arange(N) % 4 == fold
        model = noisy()
        train(model, x[~held], y[~held], batch_size=BATCH, epochs=2)
        model.optimizer.learning_rate = 0.002
        data = (x[held], y[held])
        train(model, x[~held], y[~held], batch_size=24, epochs=1, validation_data=data)
    finish(model)


def torch_compiled():
    x, y = seeded()
    model = noisy(jit=True)
    train(model, x, y, batch_size=24, epochs=3)
    finish(model)


def torch_compiled_rest():
    x, y = seeded()
    model = noisy(jit=True)
    train(model, x, y, batch_size=20, epochs=3)
    finish(model)


# --- slices ----------------------------------------------------------------------


def torch_sliced():
    x, y = seeded()
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4)
    finish(model)


def of_the_whole(target, prediction):
    """No mean over samples: it takes two passes."""
    classes = keras.ops.cast(keras.ops.reshape(target, (-1,)), "int32")
    target = keras.ops.one_hot(classes, 2)
    spread = keras.ops.std(prediction) - keras.ops.std(target)
    return keras.ops.square(spread) + keras.ops.mean(
        keras.ops.square(target - prediction)
    )


def torch_sliced_loader():
    import torch

    class Shifted(torch.nn.Module):
        """Keeps statistics; as BatchNorm1d, but for a slice of one sample, too."""

        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, rows):
            if self.training and rows.device.type != "meta":
                with torch.no_grad():
                    self.mean = 0.9 * self.mean + 0.1 * rows.mean(0)
            return rows - self.mean

    x, y = seeded()
    wrap = keras.layers.TorchModuleWrapper
    model = make(
        layers.Dense(8, "relu"),
        wrap(Shifted(), output_shape=(None, 8)),
        wrap(torch.nn.Dropout(0.2), output_shape=(None, 8)),
    )
    model.compile("adam", of_the_whole)
    train(model, loader(x, y, shuffle=True), epochs=4)
    finish(model)
