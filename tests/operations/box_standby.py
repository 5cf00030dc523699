"""The next attempt waits, on a box with systemd: as a unit of its user's, begun early."""

from tests.operations.box_kills import strike
from tests.support.machine import OPT, BootedContainer
from tests.support.machine_jobs import (
    attempted,
    await_another,
    finish,
    job,
    main_pid,
    running,
    units,
)

TRAINS = """
import keras, numpy as np, pathlib, sys
keras.utils.set_random_seed(5)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = np.random.default_rng(1).normal(size=(64, 8)).astype("float32")
class Waits(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        while epoch >= 40 and pathlib.Path(sys.argv[1]).exists():
            import time; time.sleep(0.02)
model.fit(x, x[:, :1], batch_size=8, epochs=60, verbose=0, callbacks=[Waits()])
print("ENDS", [float(w.sum()) for w in model.get_weights()], flush=True)
"""
SPEC = """
script = "/shared/awaited.py"
args = ["/shared/awaited.hold"]
[restart]
standby = true
back_off = "100ms"
"""
CONNECTS = """
import glob, socket, sys
for name in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(name)
    except PermissionError:
        print("refused")
"""


def check_the_next_attempt_waits_as_a_unit(box: BootedContainer) -> None:
    """Told by ``status``; a daemon that goes takes it along, the next starts another;
    training that is killed goes on in it, and ends as if nothing had been."""
    (box.shared / "awaited.py").write_text(TRAINS)
    (box.shared / "awaited.toml").write_text(SPEC)
    hold = box.shared / "awaited.hold"
    hold.write_text("")
    box.trainwarden("submit", "--spec", "/shared/awaited.toml", user="alice")
    running(box, "awaited")
    _waits(box, 2)
    assert job(box, "awaited")["attempt"] == 1
    daemon = main_pid(box)
    box.run("systemctl", "restart", "trainwarden")
    await_another(box, daemon)
    _says(box, "a standby for attempt 2 is started")
    daemon = main_pid(box)
    box.run(
        "systemctl", "restart", "trainwarden"
    )  # it still imports, and hears nothing
    await_another(box, daemon)
    _waits(box, 2)
    unit = "trainwarden-attempt-alice@awaited-2.service"
    shim = box.property(unit, "MainPID")
    strike(box, attempted(box, "awaited", 1), ["pid"])
    found = attempted(box, "awaited", 2)
    assert box.property(unit, "MainPID") == shim
    words = box.says("cat", f"/proc/{found['pid']}/cmdline").split("\0")
    assert "--standby" in words
    hold.unlink()
    box.until(lambda: job(box, "awaited").get("state") == "finished")
    box.until(lambda: units(box, "awaited") == [])
    ends = [
        line
        for line in box.trainwarden("logs", "awaited", user="alice").stdout.splitlines()
        if line.startswith("ENDS")
    ]
    alone = box.says(f"{OPT}/bin/python", "/shared/awaited.py", "-", user="alice")
    assert ends == [line for line in alone.splitlines() if line.startswith("ENDS")]
    _is_its_users_own(box)


def _waits(box: BootedContainer, number: int) -> None:
    _says(box, f"a standby waits to be attempt {number}")


def _says(box: BootedContainer, said: str) -> None:
    box.until(lambda: (job(box, "awaited").get("standby") or "").startswith(said))


def _is_its_users_own(box: BootedContainer) -> None:
    """Who waits is ended with its job; others neither see nor reach what it is told by."""
    (box.shared / "connects.py").write_text(CONNECTS)
    (box.shared / "awaited.hold").write_text("")
    box.trainwarden("start", "--fresh", "awaited", user="alice")
    running(box, "awaited")
    box.until(lambda: "standby" in (job(box, "awaited").get("standby") or ""))
    place = "/var/lib/trainwarden/requests/alice"
    box.run("test", "!", "-r", place, user="bob")
    finish(box, "awaited")
    box.until(lambda: units(box, "awaited") == [])
    assert not box.says("find", place, "-name", "standby-*").strip()
