"""What somebody can do about it, and who else was on the device."""

import json
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE, DEVICE_FULL, NOT_WRITABLE
from supervisor.core.diagnosis.diagnose import diagnose, diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.examination import examined
from supervisor.core.diagnosis.memory_shortage import no_room_to_begin
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.memory.figures import OomVerdict
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.evidence import crash, ours, seen
from tests.support.stories import TENANT, gpu

CORPUS = Path(__file__).with_name("corpus") / "cases.jsonl"
REAL = {
    case["id"]: case["text"]
    for case in map(json.loads, CORPUS.read_text().splitlines())
}


def advice(exception: str, message: str, traceback: str = "") -> str:
    """For a script that ended with it before its first step."""
    evidence = Evidence(exit=ours(1), crash=crash(exception, message, traceback))
    return examined(diagnose(evidence), evidence).advice


def test_a_module_that_is_not_there() -> None:
    """Another interpreter may have it."""
    said = advice("builtins.ModuleNotFoundError", "No module named 'keras'")
    assert "--python PATH" in said


def test_a_script_inside_a_package() -> None:
    """It is run as a module of that."""
    text = "attempted relative import with no known parent package"
    assert "run -m package.script" in advice("builtins.ImportError", text)


TRACE = """Traceback (most recent call last):
  File "own.py", line 9, in on_epoch_end
    check()
  File "/venv/lib/python3.11/site-packages/keras/src/x.py", line 3, in check
KeyError: 'lr'
"""


def test_any_other_error() -> None:
    """Its place in the script, where a traceback has one; else the usual."""
    assert advice("builtins.KeyError", "'lr'") == ADVICE[Cause.USER_ERROR]
    told = advice("builtins.KeyError", "'lr'", TRACE)
    assert told.endswith('raised at: File "own.py", line 9, in on_epoch_end')
    assert "goes on from the newest snapshot with --accept-changes" in told
    library = TRACE.replace("own.py", "/usr/lib/python3.11/runpy.py")
    assert advice("builtins.KeyError", "'lr'", library) == ADVICE[Cause.USER_ERROR]
    hostile = TRACE.replace("own.py", "\x1b[2Jown.py" + "x" * 400)
    told = advice("builtins.KeyError", "'lr'", hostile)
    assert "\x1b" not in told
    assert len(told) < 500


def test_advice_of_its_own_is_not_replaced_by_a_place() -> None:
    """A file system that is read-only is told as that."""
    text = "[Errno 30] Read-only file system: '/data/out.csv'"
    trace = TRACE.replace("KeyError: 'lr'", f"OSError: {text}")
    assert advice("builtins.OSError", text, trace) == NOT_WRITABLE


def told_beside_others(name: str) -> Diagnosis:
    """What is told of that output where somebody else is on the GPU."""
    log = seen(REAL[name])
    evidence = Evidence(
        exit=ours(1), log=log, gpus=(gpu(0, TENANT),), subject=OomSubject.OUTSIDE
    )
    return examined(diagnose(evidence), evidence)


@pytest.mark.parametrize("name", ["h100-no-context", "h100-no-kernel"])
def test_a_device_that_was_full_before_it_began(name: str) -> None:
    """No batch is too large, and nothing of the script is: others have the memory."""
    assert diagnose_log(seen(REAL[name])).advice == DEVICE_FULL
    found = told_beside_others(name)
    assert found.advice == DEVICE_FULL
    assert "blender" in found.because[-1].text


def test_a_kernel_without_room_beside_the_own_pool() -> None:
    """Where the pool was given what it asked for, it may be the pool that left no room."""
    lines = REAL["h100-no-kernel"].splitlines(keepends=True)
    own = "".join(line for line in lines if "failed to allocate" not in line)
    found = diagnose_log(seen(own))
    assert (found.cause, found.advice) == (
        Cause.DEVICE_OOM,
        ADVICE[Cause.DEVICE_OOM],
    )


def refused_first(*mib: int, limit: int) -> str:
    """The output of that kernel, whose pool was refused these reservations before."""
    lines = REAL["h100-no-kernel"].splitlines(keepends=True)
    first = next(line for line in lines if "failed to allocate" in line)
    refused = [
        first.replace("6.00GiB (6442450944 bytes)", f"{one}MiB ({one << 20} bytes)")
        for one in mib
    ]
    others = [line for line in lines if "failed to allocate" not in line]
    at = next(n for n, line in enumerate(others) if "Created device" in line) + 1
    text = "".join([*others[:at], *refused, *others[at:]])
    return text.replace("with 6144 MB", f"with {limit} MB")


@pytest.mark.parametrize(
    ("text", "steps", "full"),
    [
        (refused_first(6144, 2000, limit=6144), 0, True),
        (refused_first(6144, 2000, limit=6144), None, True),
        (refused_first(6144, 2000, limit=6144), 1000, False),
        (refused_first(16384, limit=77000), 0, False),  # its pool has grown before
        (refused_first(16384, 200, limit=77000), 0, False),
        (refused_first(77000, limit=77000), 0, False),  # and got 9/10 of that
        (REAL["h100-no-context"], 0, True),
        (REAL["h100-no-context"], 1000, False),
    ],
)
def test_what_its_own_pool_may_have_taken_is_no_full_device(
    text: str, steps: int | None, *, full: bool
) -> None:
    """Only a pool that got nothing, or little, shows that others had filled the device
    before; after a step nothing does."""
    evidence = Evidence(exit=ours(1), log=seen(text), steps_done=steps)
    found = diagnose(evidence)
    assert found.cause is Cause.DEVICE_OOM
    assert (found.advice == DEVICE_FULL) is full
    assert no_room_to_begin(found, evidence) is full


def test_a_log_with_steps_is_of_no_device_that_was_full_before() -> None:
    """Where a log is all there is, its own lines say whether training went on."""
    text = REAL["h100-no-kernel"]
    trained = text.replace("F0000", "5/9 - 1s - loss: 0.4\n9/9 - 1s - loss: 0.3\nF0000")
    assert diagnose_log(seen(trained)).advice == ADVICE[Cause.DEVICE_OOM]


def test_what_the_driver_said_of_the_device() -> None:
    """cuDNN's handle found 3 MiB of 79 GiB; with more than that it is not said."""
    text = REAL["h100-cudnn-handle"]
    said = diagnose_log(seen(text)).because[-1]
    assert said.text.startswith("The device was full: 3 MiB of its 79.18 GiB were free")
    roomy = text.replace("3080192 bytes free", "9080192000 bytes free")
    told = diagnose_log(seen(roomy))
    assert told.cause is Cause.CUDNN_INIT
    assert "device_memory" not in {reason.signature for reason in told.because}


@pytest.mark.parametrize("name", ["h100-cudnn-handle", "h100-cublas-handle"])
def test_a_library_that_found_no_memory_beside_others(name: str) -> None:
    """They are named: the driver lists them."""
    assert "blender" in told_beside_others(name).because[-1].text


def test_processes_that_pytorch_names() -> None:
    """Where the driver lists nobody (in a container, say) its own text does."""
    evidence = Evidence(
        exit=ours(1),
        log=seen(REAL["h100-torch-crowded"]),
        crash=crash("torch.OutOfMemoryError", REAL["h100-torch-crowded"]),
    )
    found = examined(diagnose(evidence), evidence).autopsy
    assert found is not None
    assert found.verdict is OomVerdict.FOREIGN_TENANT
    assert [one.what for one in found.tenants] == ["process 4223 (?)"]


IN_A_CONTAINER = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.18 "
    "GiB of which 18.75 MiB is free. Process 3048231 has 79.12 GiB memory in use. Of the "
    "allocated memory 78.55 GiB is allocated by PyTorch, and {unallocated} MiB is reserved "
    "by PyTorch but unallocated."
)
"""As a process says it that does not know itself by the driver's pid of it."""


@pytest.mark.parametrize(
    ("unallocated", "allocated", "kind"),
    [
        ("1.11", "78.55", OomVerdict.CAPACITY),
        ("700.00", "77.86", OomVerdict.FRAGMENTATION),
    ],
)
def test_in_a_container_pytorch_names_the_process_itself(
    unallocated: str, allocated: str, kind: OomVerdict
) -> None:
    """By the driver's pid, which is none of ours. It is nobody else, and what its own
    context holds is not held by others."""
    text = IN_A_CONTAINER.format(unallocated=unallocated).replace("78.55", allocated)
    evidence = Evidence(
        exit=ours(1),
        log=seen(text),
        crash=crash("torch.OutOfMemoryError", text),
        own_pids=frozenset({41, 42}),
        sliceable=False,
    )
    diagnosis = diagnose(evidence)
    found = examined(diagnosis, evidence)
    assert found.autopsy is not None
    assert found.autopsy.verdict is kind
    assert found.autopsy.tenants == ()
    assert not any("others" in reason.text for reason in found.because)


def test_the_process_has_a_limit_of_its_own() -> None:
    """set_per_process_memory_fraction: others are named, and not the reason."""
    evidence = Evidence(
        exit=ours(1),
        log=seen(REAL["h100-torch-allowed"]),
        crash=crash("torch.OutOfMemoryError", REAL["h100-torch-allowed"]),
        own_pids=frozenset({2512}),
    )
    found = examined(diagnose(evidence), evidence)
    assert found.autopsy is not None
    assert found.autopsy.verdict is OomVerdict.CAPACITY
    assert [one.what for one in found.autopsy.tenants] == ["process 2438 (?)"]


@pytest.mark.parametrize(
    ("name", "exception", "fraction"),
    [
        ("h100-jax", "jax.errors.JaxRuntimeError", True),
        ("h100-torch-allowed", "torch.OutOfMemoryError", False),
        ("h100-torch-crowded", "torch.OutOfMemoryError", False),
    ],
)
def test_where_a_batch_is_not_sliced(
    name: str, exception: str, *, fraction: bool
) -> None:
    """The advice is of what can be done there: slices are not."""
    text = REAL[name]
    evidence = Evidence(
        exit=ours(1),
        log=seen(text),
        crash=crash(exception, text),
        sliceable=False,
        subject=OomSubject.STEP,
    )
    said = examined(diagnose(evidence), evidence).advice
    assert "gradient_accumulation_steps" in said
    assert "smaller slices" not in said
    assert ("XLA_PYTHON_CLIENT_MEM_FRACTION" in said) is fraction
