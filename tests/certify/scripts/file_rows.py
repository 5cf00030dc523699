"""A row a function: files that the script itself writes, all of them in ``out``."""

import csv
import json
import logging
import os
import pathlib
import shutil

import h5py
import keras
import numpy as np
from callback_rows import stored
from ingredients import BATCH, noisy, seeded
from prelude import finish, train

OUT = pathlib.Path("out")


class Rows(keras.callbacks.Callback):
    """Calls ``write`` at the end of each epoch."""

    def __init__(self, write):
        super().__init__()
        self.write = write

    def on_epoch_end(self, epoch, logs=None):
        self.write(epoch, logs["loss"])


def left(*, without=()):
    """What the script's files hold."""
    found = sorted(path for path in OUT.rglob("*") if path.is_file())
    names = [p for p in found if ".cut-attempt-" not in p.name]
    return {
        str(path): path.read_bytes().hex()
        for path in names
        if path.suffix not in without
    }


def appended_files():
    x, y = seeded()
    OUT.mkdir(exist_ok=True)
    logger = logging.getLogger("own")
    logger.addHandler(logging.FileHandler(OUT / "train.log"))
    logger.setLevel("INFO")
    logger.info("begun")
    held, fresh = (OUT / "held.txt").open("a"), (OUT / "fresh.txt").open("w")
    raw = os.open(OUT / "raw.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    table = OUT / "table.csv"
    if not table.exists():
        with table.open("w", newline="") as file:
            csv.DictWriter(file, ["epoch", "loss"]).writeheader()

    def write(epoch, loss):
        logger.info("epoch %d: %r", epoch, loss)
        held.write(f"{epoch} {loss}\n")
        fresh.write(f"{epoch} {loss}\n")
        os.write(raw, f"{epoch} {loss}\n".encode())
        with table.open("a", newline="") as file:
            csv.DictWriter(file, ["epoch", "loss"]).writerow(
                {"epoch": epoch, "loss": loss}
            )

    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=5, callbacks=[Rows(write)])
    held.close()
    fresh.close()
    finish(model, files=left())


def rewritten_files():
    x, y = seeded()
    OUT.mkdir(exist_ok=True)
    (OUT / "tally.json").write_text("[]")
    losses = []

    def write(epoch, loss):
        losses.append(loss)
        tally = json.loads((OUT / "tally.json").read_text())
        (OUT / "tally.json").write_text(json.dumps([*tally, epoch]))
        (OUT / "new").write_text(json.dumps(losses))
        os.replace(OUT / "new", OUT / "results.json")
        (OUT / "last.json").write_text(json.dumps({"epoch": epoch}))
        np.save(OUT / "loss.npy", np.array([epoch, loss]))
        if epoch == 1:
            (OUT / "second.txt").write_text("of the second epoch alone")

    best = keras.callbacks.ModelCheckpoint(
        OUT / "best.weights.h5",
        monitor="loss",
        save_best_only=True,
        save_weights_only=True,
    )
    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=5, callbacks=[Rows(write), best])
    finish(model, files=left(without=[".h5"]), best=stored(OUT / "best.weights.h5"))


def fold_files():
    x, y = seeded()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    for fold in range(3):
        model = noisy()
        rows = keras.callbacks.CSVLogger(OUT / "all.csv", append=True)
        own = keras.callbacks.CSVLogger(OUT / f"fold-{fold}.csv")
        train(model, x, y, batch_size=BATCH, epochs=2, callbacks=[rows, own])
        with (OUT / "results.txt").open("a") as file:
            file.write(f"{fold} {model.get_weights()[0].sum()!r}\n")
    finish(model, files=left())


def files_in_place():
    """Slots that are changed in the middle: of a small file, of an open one; HDF5."""
    x, y = seeded()
    OUT.mkdir(exist_ok=True)
    (OUT / "slots").write_bytes(bytes(64))
    held = (OUT / "held").open("w+b")
    held.write(bytes(64))

    def write(epoch, loss):
        with (OUT / "slots").open("r+b") as file:
            file.seek(8 * epoch)
            file.write(np.float64(loss).tobytes())
        held.seek(epoch)
        held.write(b"1")
        held.flush()
        with h5py.File(OUT / "losses.h5", "a") as file:
            file.attrs[f"epoch {epoch}"] = loss

    model = noisy()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[Rows(write)])
    with h5py.File(OUT / "losses.h5") as file:
        losses = dict(file.attrs)
    finish(model, slots=(OUT / "slots").read_bytes().hex(), losses=losses)
