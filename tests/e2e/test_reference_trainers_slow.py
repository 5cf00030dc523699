"""The reference trainers: each certified by kills at random, and through a real OOM."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Trainwarden
from tests.support.script_packages import SCRIPT_PACKAGES
from tests.support.zygote import OTHER_BACKENDS

pytestmark = pytest.mark.slow
MINUTES = 10
REFERENCE = Path(__file__).parents[2] / "trainers" / "reference"

LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]) << 20,) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""As ``ulimit -d`` of a shell: what a process and its children may have, in MiB."""
with_jax = pytest.mark.skipif(
    not (OTHER_BACKENDS / "jax").is_dir(),
    reason="JAX is not here: make .venv/other-backends",
)


@pytest.fixture(autouse=True)
def _with_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT_PACKAGES))


def placed(trainwarden: Trainwarden, name: str) -> Path:
    """The script, where a person has copied it to."""
    return trainwarden.script((REFERENCE / f"{name}.py").read_text())


@pytest.mark.parametrize(
    "name",
    ["gan", "own_loop", "segmentation", "several_devices", "text_buckets", "transfer"],
)
def test_certified(trainwarden: Trainwarden, name: str) -> None:
    """Killed three times, the same to the bit; and the run itself had promised it."""
    done = trainwarden("certify", placed(trainwarden, name))
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith("certified ("), done.stdout


@with_jax
def test_on_jax_certified(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same on Keras' JAX back end."""
    monkeypatch.setenv("PYTHONPATH", str(OTHER_BACKENDS))
    test_certified(trainwarden, "on_jax")


def test_a_unet_out_of_memory(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One restart in slices, and to the end.

    With oneDNN on any processor: without AVX-512 it is off, and TensorFlow's convolutions take
    30 MiB of workspace however few samples there are.
    """
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    done = trainwarden(
        "run", "--cpu-memory", "72MiB", placed(trainwarden, "segmentation")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = trainwarden.json("incidents")
    assert incident["cause"] == "device_oom"
    assert incident["remedy"]["kind"] == "microbatch"


def ended(trainwarden: Trainwarden, *arguments: str | Path) -> tuple[str, int]:
    """What it said, and its exit code. Several attempts of a busy machine take minutes."""
    process = trainwarden.start(*arguments)
    told, _ = process.communicate(timeout=MINUTES * 60)
    return told, process.returncode


def test_a_second_phase_out_of_memory(trainwarden: Trainwarden) -> None:
    """Slices, and through all three calls of ``fit`` to the end."""
    transfer = placed(trainwarden, "transfer")
    told, code = ended(
        trainwarden, "run", "--cpu-memory", "64MiB", transfer, "--batch", "512"
    )
    assert code == 0, told
    causes = {one["cause"] for one in trainwarden.json("incidents")}
    assert causes
    assert causes <= {"device_oom", "device_oom_fragmentation"}


def test_several_devices_out_of_memory(trainwarden: Trainwarden) -> None:
    """Each device works through its part of the batch in slices."""
    devices = placed(trainwarden, "several_devices")
    large = (devices, "--each", "1536", "--units", "256")
    told, code = ended(trainwarden, "run", "--cpu-memory", "14MiB", *large)
    assert code == 0, told
    incidents = trainwarden.json("incidents")
    assert incidents[-1]["remedy"]["kind"] == "microbatch"


def test_a_gan_out_of_memory(trainwarden: Trainwarden) -> None:
    """A step of its own is not sliced: that is said, with a batch that fits; and it does."""
    gan = placed(trainwarden, "gan")
    limited = ("run", "--cpu-memory", "48MiB", gan, "--epochs", "2", "--batch")
    told, code = ended(trainwarden, *limited, "512")
    assert code == 1, told
    assert "as Gan has a train_step of its own" in told
    assert "microbatch.reduce in the spec" in told
    last = trainwarden.json("incidents")[-1]
    assert (last["cause"], last["remedy"]["kind"]) == ("device_oom", "stop")
    (fits,) = set(re.findall(r"about (\d+) samples would fit", told))
    said, code = ended(trainwarden, *limited, fits)
    assert code == 0, said


def test_a_loop_out_of_memory(trainwarden: Trainwarden) -> None:
    """Nobody slices its batch: it stops at once, and a smaller one fits."""
    loop = placed(trainwarden, "own_loop")
    limited = ("run", "--cpu-memory", "40MiB", loop, "--units", "4096", "--batch")
    told, code = ended(trainwarden, *limited, "1024")
    assert code == 1, told
    assert "a step of the script's own loop does not fit" in told
    (incident,) = trainwarden.json("incidents")
    assert (incident["cause"], incident["remedy"]["kind"]) == ("device_oom", "stop")
    said, code = ended(trainwarden, *limited, "128")
    assert code == 0, said


def test_texts_out_of_memory(trainwarden: Trainwarden) -> None:
    """Batches of three shapes may leave no block that is large enough though enough is
    free: whichever it was, the run comes to its end."""
    done = trainwarden(
        "run", "--cpu-memory", "10MiB", placed(trainwarden, "text_buckets")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    causes = {one["cause"] for one in trainwarden.json("incidents")}
    assert causes
    assert causes <= {"device_oom", "device_oom_fragmentation"}


@with_jax
def test_on_jax_out_of_memory(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLA keeps to no limit on a CPU: that of the system refuses its step, and under
    ``--cpu-memory`` the batch is worked through in slices, to the end."""
    monkeypatch.setenv("PYTHONPATH", str(OTHER_BACKENDS))
    large = ("--batch", "16384", "--images", "16384", "--epochs", "1")
    command = trainwarden.command(
        "run", "--cpu-memory", "256MiB", placed(trainwarden, "on_jax"), *large
    )
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "2000", *command],
        cwd=trainwarden.directory,
        capture_output=True,
        text=True,
        timeout=MINUTES * 60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = trainwarden.json("incidents")
    assert incident["cause"] == "device_oom"
    assert incident["remedy"]["kind"] == "microbatch"
    assert incident["autopsy"]["subject"] == "step"
