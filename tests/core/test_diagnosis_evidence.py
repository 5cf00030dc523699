"""From evidence to a cause: which sign wins, and what is said about it."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.allocator import MemoryFigures
from supervisor.core.causes import Cause
from supervisor.core.claims import claims_of
from supervisor.core.diagnosis import diagnose, diagnose_log
from supervisor.core.evidence import Evidence
from supervisor.core.exits import SIGNALS, parse_status, record_of, signal_name
from supervisor.core.logscan import LogFindings, scan
from supervisor.core.signatures import SIGNATURES
from supervisor.wire.records import CrashReport, ExitRecord

CORPUS = Path(__file__).with_name("corpus") / "cases.jsonl"
CASES = [json.loads(line) for line in CORPUS.read_text().splitlines()]
PUBLIC = [
    json.loads(line)
    for line in CORPUS.with_name("public.jsonl").read_text().splitlines()
]
"""Short quotes of output that people published, each with where it stands."""

OOM = "Allocator (GPU_0_bfc) ran out of memory trying to allocate 64B (rounded to 256)"
HOLES = (
    f"{OOM}\nTotal bytes in pool: 4000 memory_limit_: 4000 available bytes: 0 x\n"
    "Limit: 4000\nInUse:  3000\nMaxInUse:  3000\nMaxAllocSize:  3000\n"
)
MKL = "Allocator (mklcpu) ran out of memory trying to allocate 64B (rounded to 256)\n"
FAULT = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
STEPS = "Epoch 1/3\n5/9 - 1s - loss: 0.4\n9/9 - 1s - loss: 0.3\nEpoch 2/3\n"


def ours(code: int | None = None, signal: int | None = None) -> ExitRecord:
    """The exit record of a process that we watched."""
    return replace(record_of(code, signal), pid=77)


def crash(exception: str, message: str = "x", traceback: str = "") -> CrashReport:
    """What the child left behind."""
    return CrashReport(
        exception=exception,
        message=message,
        traceback=traceback,
        steps_done=3,
        in_fit=True,
    )


@functools.cache
def seen(text: str) -> LogFindings:
    """The findings of a log."""
    return scan(text.encode())


def cause(evidence: Evidence) -> Cause:
    """The cause alone."""
    return diagnose(evidence).cause


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
@pytest.mark.parametrize("with_exit", [False, True])
def test_crashes_that_were_provoked(case: dict[str, Any], *, with_exit: bool) -> None:
    """Real output of real crashes is named right, with the exit status and without."""
    evidence = None
    if with_exit:
        record = record_of(*(parse_status(str(case["exit"])) or (None, None)))
        evidence = Evidence(exit=record, finished=record.exit_code == 0)
    diagnosis = diagnose_log(seen(case["text"]), evidence=evidence)
    assert diagnosis.cause == case["cause"]
    assert bool(diagnosis.because) == (diagnosis.cause is not Cause.NONE)


@pytest.mark.parametrize("case", PUBLIC, ids=[case["id"] for case in PUBLIC])
def test_output_that_people_published(case: dict[str, Any]) -> None:
    """A few lines of other people's crashes, or of none, are named right."""
    answer = diagnose_log(seen(case["text"])).cause
    assert answer in {case["cause"], *case["also"]}


def test_an_exception_that_points_at_the_log_leaves_it_the_word() -> None:
    """ "Look at the errors above": the status there is the cause."""
    text = "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED\n"
    for message in (
        (
            "Failed to get convolution algorithm. This is probably because cuDNN failed to"
            " initialize, so try looking to see if a warning log message was printed above."
        ),
        "DNN library initialization failed. Look at the errors above for more details.",
    ):
        said = crash("tensorflow.python.framework.errors_impl.UnknownError", message)
        evidence = Evidence(exit=ours(1), crash=said, log=seen(text))
        assert cause(evidence) is Cause.CUDNN_ALLOC
        assert cause(replace(evidence, log=seen(""))) is Cause.CUDNN_INIT


def test_a_clean_end_is_no_failure() -> None:
    """What stands in the log of a run that came to its end was outlived."""
    evidence = Evidence(exit=ours(0), finished=True, log=seen(FAULT))
    assert cause(evidence) is Cause.NONE


def test_a_clean_end_with_a_loss_that_is_no_number_is_a_failure() -> None:
    """NaN runs may exit with 0."""
    log = seen("8/8 - 0s - loss: nan\n")
    diagnosis = diagnose(Evidence(exit=ours(0), finished=True, log=log))
    assert diagnosis.cause is Cause.NON_FINITE_LOSS
    assert diagnosis.because[0].line == 1
    stopped = seen("Batch 1: Invalid loss, terminating training\n")
    assert diagnose_log(stopped).cause is Cause.NON_FINITE_LOSS


def test_refusals_are_told_apart() -> None:
    """A version that is not supported is no fault of the script's author."""
    refused = Evidence(exit=ours(1), refused="Keras 9.1 is not supported.")
    assert cause(refused) is Cause.VERSION_MISMATCH
    assert cause(replace(refused, refused="fit in a thread")) is Cause.USER_ERROR


def test_a_drain_is_a_preemption_unless_training_was_done() -> None:
    """Saved on request and ended, or finished at the same moment."""
    drained = Evidence(exit=ours(75), drained=True)
    assert cause(drained) is Cause.PREEMPTED
    assert cause(replace(drained, finished=True)) is Cause.NONE


def test_what_we_ended_ourselves_we_know() -> None:
    """A stall, a process in D state, a stop that took too long."""
    killed = Evidence(exit=ours(signal=9), killed_because="no step for 600 s")
    assert cause(killed) is Cause.STALLED
    stuck = replace(killed, killed_because="in D state since 60 s")
    assert cause(stuck) is Cause.UNKILLABLE
    stopped = Evidence(exit=ours(signal=15), stop_requested=True, log=seen(FAULT))
    assert cause(stopped) is Cause.PREEMPTED
    own = replace(stopped, crash=crash("builtins.KeyError"))
    assert cause(own) is Cause.USER_ERROR
    left = replace(ours(signal=9), unkillable=(4, 5))
    assert cause(Evidence(exit=left)) is Cause.UNKILLABLE


def test_sigkill_is_memory_only_where_the_kernel_says_so() -> None:
    """Otherwise somebody outside sent it, and the sentence says what is known."""
    killed = Evidence(exit=ours(signal=9), log=seen("KeyError: handled\n"))
    assert cause(replace(killed, cgroup_oom_kills=1)) is Cause.HOST_OOM
    still = diagnose(replace(killed, cgroup_oom_kills=0))
    blind = diagnose(killed)
    assert still.cause is blind.cause is Cause.PREEMPTED
    assert "did not move" in still.because[-1].text
    assert "could not be read" in blind.because[-1].text
    kernel = replace(killed, kernel=seen("Memory cgroup out of memory: Killed process"))
    assert cause(kernel) is Cause.HOST_OOM


def test_an_allocation_that_failed_and_was_caught_did_not_send_sigkill() -> None:
    """A dump and its log lines, left from measuring slices, are no cause of a kill."""
    dump = MemoryFigures(in_use_bytes=3000, pool_bytes=4000, free_bytes=1000)
    evidence = Evidence(exit=ours(signal=9), dump=dump, log=seen(OOM), limited=True)
    assert cause(evidence) is Cause.PREEMPTED
    assert cause(replace(evidence, cgroup_oom_kills=1)) is Cause.HOST_OOM


def test_an_oom_kill_of_a_worker_outranks_the_exception_it_caused() -> None:
    """The main process ended by itself, but the cgroup counted a kill."""
    log = seen("RuntimeError: DataLoader worker (pid 1) exited unexpectedly\n")
    evidence = Evidence(exit=ours(1), log=log, cgroup_oom_kills=1)
    assert cause(evidence) is Cause.HOST_OOM


def test_the_crash_report_outranks_a_later_abort() -> None:
    """TensorFlow may abort while the interpreter ends: exit 134 is not the cause."""
    report = crash("tensorflow.errors.ResourceExhaustedError", "OOM when allocating")
    evidence = Evidence(
        exit=ours(signal=6), crash=report, log=seen("F0000 x] Check failed: h != k\n")
    )
    assert cause(evidence) is Cause.DEVICE_OOM
    assert diagnose(evidence).because[0].line is None


def test_an_error_of_the_script_outranks_what_the_log_shows_beside_it() -> None:
    """An out-of-memory that was caught long ago did not end the script."""
    evidence = Evidence(exit=ours(1), crash=crash("KeyError", "'a'"), log=seen(OOM))
    assert cause(evidence) is Cause.USER_ERROR


def test_a_cover_exception_is_left_to_the_log() -> None:
    """``InternalError`` says nothing; the fault in the log does."""
    report = crash("tensorflow.errors.InternalError", "stream did not block")
    evidence = Evidence(exit=ours(1), crash=report, log=seen(FAULT))
    assert cause(evidence) is Cause.CUDA_FAULT
    assert cause(replace(evidence, log=LogFindings())) is Cause.UNKNOWN


def test_an_exception_of_a_strange_name_is_the_script_s() -> None:
    """There is always the crash report itself to quote."""
    report = crash("mine.Oops", "something\nlong")
    diagnosis = diagnose(Evidence(exit=ours(1), crash=report))
    assert diagnosis.cause is Cause.USER_ERROR
    assert diagnosis.because[0].text == "mine.Oops: something"


def test_a_native_crash_after_an_allocator_dump_is_out_of_memory() -> None:
    """The case a supervisor exists for: exit 139, and the cause only in the dump."""
    dump = MemoryFigures(in_use_bytes=3000, pool_bytes=4000, free_bytes=1000)
    evidence = Evidence(exit=ours(signal=11), dump=dump, limited=True)
    assert cause(evidence) is Cause.DEVICE_OOM
    assert cause(replace(evidence, dump=None)) is Cause.NATIVE_CRASH
    assert cause(replace(evidence, exit=ours(139), dump=None)) is Cause.NATIVE_CRASH
    assert cause(replace(evidence, exit=ours(signal=6))) is Cause.DEVICE_OOM
    assert cause(replace(evidence, exit=None)) is Cause.DEVICE_OOM


def test_dump_and_log_together_tell_fragmentation() -> None:
    """The chunks stand in the dump, the request and the limit in the log."""
    dump = MemoryFigures(
        in_use_bytes=3000, pool_bytes=4000, free_bytes=1000, largest_free_bytes=200
    )
    evidence = Evidence(exit=ours(signal=11), dump=dump, log=seen(HOLES))
    diagnosis = diagnose(evidence)
    assert diagnosis.cause is Cause.DEVICE_OOM_FRAGMENTATION
    assert diagnosis.memory is not None
    assert diagnosis.memory.requested_bytes == 256
    assert diagnosis.memory.limit_bytes == 4000
    assert "largest block" in diagnosis.because[-1].text
    alone = diagnose_log(seen(HOLES))
    assert alone.cause is Cause.DEVICE_OOM_FRAGMENTATION
    assert "1000 bytes free" in alone.because[-1].text


def test_the_cpu_s_memory_is_the_device_s_under_our_limit_only() -> None:
    """``mklcpu`` without a limit of ours is the memory of the machine."""
    evidence = Evidence(exit=ours(1), log=seen(MKL))
    assert cause(evidence) is Cause.HOST_OOM
    assert cause(replace(evidence, limited=True)) is Cause.DEVICE_OOM
    dump = MemoryFigures(allocator="mklcpu")
    assert cause(Evidence(exit=ours(signal=11), dump=dump)) is Cause.HOST_OOM


def test_figures_of_the_failure_that_counts_are_given() -> None:
    """The dump that began last before the line, else the first one after it."""
    log = seen(f"{HOLES}x\nInternalError: Dst tensor is not initialized.\n")
    assert diagnose_log(log).memory is not None
    late = seen(f"InternalError: Dst tensor is not initialized.\n{HOLES}")
    memory = diagnose_log(late).memory
    assert memory is not None
    assert memory.limit_bytes == 4000
    capacity = seen(
        "CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 7.79 GiB "
        "total capacity; 4.62 GiB already allocated; 1.11 GiB free)"
    )
    assert "in use" in diagnose_log(capacity).because[-1].text


def test_the_root_wins_over_what_it_dragged_along() -> None:
    """Whichever line came first: the fault, not the collective that failed for it."""
    nccl = "RuntimeError: NCCL error in: x.cpp:1, internal error\n"
    assert diagnose_log(seen(nccl + FAULT)).cause is Cause.CUDA_FAULT
    timeout = "[E ProcessGroupNCCL] Watchdog caught collective operation timeout: x\n"
    assert diagnose_log(seen("[rank1]: KeyError: 'a'\n" + timeout)).cause == (
        Cause.USER_ERROR
    )
    assert diagnose_log(seen(timeout)).cause is Cause.NCCL


def test_among_equals_the_first_wins_but_of_mere_types_the_last() -> None:
    """A fault, then an OOM: the fault. An exception while handling one: the later."""
    assert diagnose_log(seen(FAULT + OOM)).cause is Cause.CUDA_FAULT
    assert diagnose_log(seen(OOM + "\n" + FAULT)).cause is Cause.DEVICE_OOM
    types = "ValueError: a\nDuring handling of it:\nKeyError: b\n"
    assert diagnose_log(seen(types)).because[0].text == "KeyError: b"


def test_what_training_outlived_is_no_cause() -> None:
    """An OOM that was caught, and three epochs after it."""
    assert diagnose_log(seen(OOM + "\n" + STEPS)).cause is Cause.NONE
    assert diagnose_log(seen(STEPS + OOM)).cause is Cause.DEVICE_OOM
    same = seen(STEPS + OOM + "\n9/9 - 1s - loss: 0.3\n")
    assert diagnose_log(same).cause is Cause.DEVICE_OOM
    failed = Evidence(exit=ours(1))
    assert diagnose_log(seen(OOM + "\n" + STEPS), evidence=failed).cause is (
        Cause.DEVICE_OOM
    )


def test_a_hint_decides_only_beside_a_failure() -> None:
    """A reservation that was retried is nothing, unless the run did fail."""
    hint = seen("failed to allocate 10.09G from device: CUDA_ERROR_OUT_OF_MEMORY\n")
    assert diagnose_log(hint).cause is Cause.NONE
    assert diagnose_log(hint, evidence=Evidence(exit=ours(1))).cause is Cause.DEVICE_OOM


def test_a_wrapper_that_saw_exit_code_zero_is_believed() -> None:
    """The last line says how the process ended."""
    end = "Process finished with exit code 0\n"
    assert diagnose_log(seen("KeyError: 'a'\n" + end)).cause is Cause.NONE
    assert diagnose_log(seen(end + "KeyError: 'a'\n")).cause is Cause.USER_ERROR


def test_exceptions_in_the_log_are_not_the_end_of_a_child_that_would_report_them() -> (
    None
):
    """A traceback that somebody logged, and a segmentation fault."""
    log = seen("Traceback (most recent call last):\nKeyError: handled\n")
    assert cause(Evidence(exit=ours(signal=11), log=log)) is Cause.NATIVE_CRASH
    fault = seen("Fatal Python error: Segmentation fault\n")
    assert cause(Evidence(exit=None, fault=fault)) is Cause.NATIVE_CRASH


def test_a_script_that_leaves_with_a_status_of_its_own_is_not_a_riddle() -> None:
    """``sys.exit(3)`` is the script's decision; what the log explains comes first."""
    left = Evidence(exit=ours(3), script_exit_code=3)
    diagnosis = diagnose(left)
    assert diagnosis.cause is Cause.USER_ERROR
    assert "sys.exit(3)" in diagnosis.because[0].text
    assert cause(replace(left, log=seen(FAULT))) is Cause.CUDA_FAULT


def test_signals_of_others_are_preemptions() -> None:
    """SIGTERM, SIGHUP, or a number nobody knows."""
    assert cause(Evidence(exit=ours(signal=15))) is Cause.PREEMPTED
    unknown = diagnose(Evidence(exit=ours(signal=60)))
    assert "signal 60" in unknown.because[0].text


def test_nothing_known_is_said_so() -> None:
    """The exit status and the last line are quoted; exit 0 in mid-training too."""
    evidence = Evidence(exit=ours(3), log=seen("strange words\n"))
    diagnosis = diagnose(evidence)
    assert diagnosis.cause is Cause.UNKNOWN
    assert [reason.text for reason in diagnosis.because] == [
        "It ended with exit code 3.",
        "strange words",
    ]
    assert cause(Evidence(exit=None)) is Cause.UNKNOWN
    early = diagnose(Evidence(exit=ours(0)))
    assert "in the middle of training" in early.because[0].text
    assert diagnose_log(LogFindings()).cause is Cause.NONE
    status = Evidence(exit=record_of(3, None))
    assert diagnose_log(LogFindings(), evidence=status).cause is Cause.UNKNOWN


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1", (1, None)),
        ("137 (Killed)", (137, None)),
        ("-9", (None, 9)),
        ("SIGABRT (kernel restarted)", (None, 6)),
        ("0:125", (125, None)),
        ("0:9", (None, 9)),
        ("2:0", (2, None)),
        ("SIGNOT", None),
        ("soon", None),
    ],
)
def test_exit_statuses_as_people_write_them(
    text: str, status: tuple[int | None, int | None] | None
) -> None:
    """Codes, signals, subprocess's negatives, Slurm's pairs."""
    assert parse_status(text) == status


def test_signals_have_names() -> None:
    """Those of Linux; others keep their number."""
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(63) == "signal 63"


logs = st.lists(
    st.sampled_from([OOM, HOLES, MKL, FAULT, STEPS, "KeyError: 'a'", "loss: nan", "x"]),
    max_size=6,
).map(lambda lines: seen("\n".join(lines)))
crashes = st.none() | st.builds(
    crash,
    st.sampled_from(["KeyError", "a.InternalError", "MemoryError", "Odd"]),
    st.text(max_size=10),
    st.sampled_from(["", OOM, FAULT]),
)
exits = st.none() | st.one_of(
    st.builds(ours, st.integers(0, 255)),
    st.builds(ours, st.none(), st.sampled_from([*SIGNALS, 60])),
)
counts = st.none() | st.integers(0, 5000)
evidences = st.builds(
    Evidence,
    exit=exits,
    crash=crashes,
    log=logs,
    fault=logs,
    kernel=logs,
    dump=st.none()
    | st.builds(
        MemoryFigures,
        free_bytes=counts,
        requested_bytes=counts,
        limit_bytes=counts,
        in_use_bytes=counts,
        allocator=st.sampled_from([None, "mklcpu", "GPU_0_bfc"]),
    ),
    limited=st.booleans(),
    refused=st.none() | st.text(max_size=10),
    finished=st.booleans(),
    drained=st.booleans(),
    steps_done=counts,
    cgroup_oom_kills=counts,
    stop_requested=st.booleans(),
    killed_because=st.none() | st.text(max_size=10),
    log_only=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(evidences)
def test_a_diagnosis_is_total_and_has_reasons(evidence: Evidence) -> None:
    """Whatever is known, there is one answer, the same each time, and it says why."""
    diagnosis = diagnose(evidence)
    assert diagnosis == diagnose(evidence)
    assert bool(diagnosis.because) == (diagnosis.cause is not Cause.NONE)
    assert bool(diagnosis.advice) == (diagnosis.cause is not Cause.NONE)
    assert all(reason.signature for reason in diagnosis.because)


@settings(deadline=None)
@given(evidences, st.randoms())
def test_the_order_of_the_hits_does_not_matter(evidence: Evidence, dice: Any) -> None:
    """Lines carry their place in time; how they are handed over says nothing."""
    hits = list(evidence.log.hits)
    dice.shuffle(hits)
    shuffled = replace(evidence, log=replace(evidence.log, hits=tuple(hits)))
    if not evidence.log_only:
        assert diagnose(shuffled).cause == diagnose(evidence).cause


@settings(deadline=None)
@given(evidences)
def test_a_root_cause_is_not_moved_by_a_cascade(evidence: Evidence) -> None:
    """Adding a line that only follows from others never changes a root's answer; one
    that training outlived is an answer only where there is no other."""
    rows = {row.id: row for row in SIGNATURES}
    before = diagnose(evidence)
    first = before.because[0].signature if before.because else ""
    line = "Aborted (core dumped)"
    text = "\n".join(hit.text for hit in evidence.log.hits)
    hit = scan(f"{line}\n".encode()).hits[0]
    after = replace(evidence.log, hits=(*evidence.log.hits, replace(hit, line=10**6)))
    stands = first in {claim.reason.signature for claim in claims_of(evidence)}
    if stands and first in rows and rows[first].weight > 35 and line not in text:
        assert diagnose(replace(evidence, log=after)).cause == before.cause
