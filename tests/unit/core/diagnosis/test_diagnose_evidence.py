"""From evidence to a cause: which sign wins, and what is said about it."""

from dataclasses import replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ENDED_AT_ONCE, ENDED_ITSELF, NOT_WRITABLE
from supervisor.core.diagnosis.diagnose import (
    AT_ONCE,
    diagnose,
    diagnose_log,
    from_outside,
)
from supervisor.core.diagnosis.evidence import Evidence, Killed
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.diagnosis.explain import diagnosis_headline, verdict_sentence
from supervisor.core.diagnosis.log_scanner import LogFindings
from supervisor.core.diagnosis.memory_shortage import figure_reasons
from supervisor.core.diagnosis.result import ReasonSource
from supervisor.core.diagnosis.scoring import opening
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.oom_report import LoggedFigures
from supervisor.wire.reasons import KillReason
from tests.support.evidence import FAULT, HOLES, MKL, OOM, cause, crash, ours, seen

STALLED = Killed(reason=KillReason.STALLED, sentence="no step for 600 s")


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


def test_an_exception_alone_has_the_first_figures_of_the_log() -> None:
    """It stands at no line of the log; what came later may be of its handling."""
    figures = [MemoryFigures(limit_bytes=n, requested_bytes=1) for n in (1000, 2000)]
    report = crash(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError",
        "OOM when allocating tensor with shape[8,8] and type float on GPU:0",
    )
    log = LogFindings(
        dumps=(LoggedFigures(3, figures[0]), LoggedFigures(9, figures[1]))
    )
    diagnosis = diagnose(Evidence(exit=ours(1), crash=report, log=log))
    assert diagnosis.memory is not None
    assert diagnosis.memory.limit_bytes == 1000


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


def test_a_drain_is_a_preemption_unless_training_was_done() -> None:
    """Saved on request and ended, or finished at the same moment."""
    drained = Evidence(exit=ours(75), drained=True)
    assert cause(drained) is Cause.PREEMPTED
    assert cause(replace(drained, finished=True)) is Cause.NONE


def test_what_we_ended_ourselves_we_know() -> None:
    """A stall, a process in D state, a stop that took too long."""
    killed = Evidence(exit=ours(signal=9), killed=STALLED)
    assert cause(killed) is Cause.STALLED
    stuck = replace(killed, killed=replace(STALLED, reason=KillReason.UNKILLABLE))
    assert cause(stuck) is Cause.UNKILLABLE
    stopped = Evidence(exit=ours(signal=15), stop_requested=True, log=seen(FAULT))
    assert cause(stopped) is Cause.PREEMPTED
    own = replace(stopped, crash=crash("builtins.KeyError"))
    assert cause(own) is Cause.USER_ERROR
    left = replace(ours(signal=9), unkillable=(4, 5))
    assert cause(Evidence(exit=left)) is Cause.UNKILLABLE


def test_whom_we_killed_out_of_grace_nobody_else_did() -> None:
    """Not even where the kernel counted no kill for memory; a crash, or an end of its own
    just before, is told as that."""
    late = Evidence(exit=ours(signal=9), grace_seconds=120.0, cgroup_oom_kills=0)
    found = diagnose(late)
    assert (found.cause, from_outside(found, late)) == (Cause.PREEMPTED, False)
    assert found.because[0].code == KillReason.GRACE_OVER
    told = verdict_sentence(found)
    assert told.startswith("asked to end, it saved nothing in time, and Trainwarden")
    asked = replace(late, exit=ours(signal=15))
    assert verdict_sentence(diagnose(asked)).startswith(
        "it was asked to end, and ended"
    )
    own = replace(late, crash=crash("builtins.KeyError"))
    assert cause(own) is Cause.USER_ERROR
    assert cause(replace(own, cgroup_oom_kills=1)) is Cause.USER_ERROR
    assert "drain.grace" in found.advice
    left = diagnose(replace(late, exit=ours(1)))
    assert (left.because[0].code, "drain.grace" in left.advice) == (None, False)


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


def test_what_was_asked_for_never_reads_as_what_there_was() -> None:
    """Nobody would understand why it was not given."""
    mib = 2**20
    figures = MemoryFigures(
        requested_bytes=28 * mib,
        free_bytes=50 * mib,
        largest_free_bytes=28 * mib - 200_000,
    )
    (reason,) = figure_reasons(Cause.DEVICE_OOM_FRAGMENTATION, figures)
    assert reason.text == (
        "28672 KiB asked for, 50 MiB free in the pool, the largest block 28477 KiB."
    )


def test_the_cpu_s_memory_is_the_device_s_under_our_limit_only() -> None:
    """``mklcpu`` without a limit of ours is the memory of the machine."""
    evidence = Evidence(exit=ours(1), log=seen(MKL))
    assert cause(evidence) is Cause.HOST_OOM
    assert cause(replace(evidence, limited=True)) is Cause.DEVICE_OOM
    dump = MemoryFigures(allocator="mklcpu")
    assert cause(Evidence(exit=ours(signal=11), dump=dump)) is Cause.HOST_OOM


def test_what_jax_is_refused_on_a_cpu_is_the_device_s_under_our_limit_only() -> None:
    """XLA has no limit of its own there: the system refused it."""
    text = "RESOURCE_EXHAUSTED: Out of memory allocating 520335616 bytes."
    report = crash("jax.errors.JaxRuntimeError", text)
    evidence = Evidence(exit=ours(1), crash=report)
    assert cause(evidence) is Cause.HOST_OOM
    assert cause(replace(evidence, limited=True)) is Cause.DEVICE_OOM


def test_exceptions_in_the_log_are_not_the_end_of_a_child_that_would_report_them() -> (
    None
):
    """A traceback that somebody logged, and a segmentation fault."""
    log = seen("Traceback (most recent call last):\nKeyError: handled\n")
    assert cause(Evidence(exit=ours(signal=11), log=log)) is Cause.NATIVE_CRASH
    fault = seen("Fatal Python error: Segmentation fault\n")
    assert cause(Evidence(exit=None, fault=fault)) is Cause.NATIVE_CRASH


def test_a_crash_is_told_once_with_its_file_and_its_frames() -> None:
    """faulthandler's file is not the output, and one end is one sentence."""
    stack = 'Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f\n'
    written = f"Fatal Python error: Segmentation fault\n\n{stack}"
    evidence = Evidence(exit=ours(signal=11), fault=seen(written), stacks=written)
    diagnosis = diagnose(evidence)
    first = diagnosis.because[0]
    assert (first.line, first.source) == (1, ReasonSource.FAULT)
    assert "(fault.log line 1)" in verdict_sentence(diagnosis)
    assert [one.text for one in diagnosis.because[1:]] == [
        "It was ended by SIGSEGV.",
        "It crashed in f (a.py, line 3)",
    ]
    bare = diagnose(Evidence(exit=ours(signal=11)))
    assert [one.text for one in bare.because] == ["It was ended by SIGSEGV."]


def test_lines_of_the_kernel_are_not_told_as_lines_of_the_log() -> None:
    """Their number is that of an extract."""
    xid = seen("NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\n")
    diagnosis = diagnose(Evidence(exit=ours(1), kernel=xid))
    assert verdict_sentence(diagnosis).endswith("off the bus. (kernel log)")


def test_a_script_that_leaves_with_a_status_of_its_own_is_not_a_riddle() -> None:
    """``sys.exit(3)`` is the script's decision; what the log explains comes first."""
    left = Evidence(exit=ours(3), script_exit_code=3)
    diagnosis = diagnose(left)
    assert diagnosis.cause is Cause.USER_ERROR
    assert "sys.exit(3)" in diagnosis.because[0].text
    assert diagnosis.advice == ENDED_ITSELF
    assert "raised an error" not in diagnosis_headline(diagnosis)
    assert "traceback" not in verdict_sentence(diagnosis)
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


def test_a_process_that_leaves_past_python_is_told_so() -> None:
    """In training an exception and ``sys.exit`` leave a record: where neither did,
    ``os._exit`` is the place to look. Before a step, nobody knows."""
    for code in (0, 3):
        left = diagnose(Evidence(exit=ours(code), steps_done=4))
        assert left.cause is Cause.UNKNOWN
        assert f"exit code {code}" in left.because[0].text
        assert left.because[0].text.endswith(AT_ONCE)
        assert left.advice == ENDED_AT_ONCE
    status = Evidence(exit=ours(3))
    by_script = replace(status, steps_done=4, script_exit_code=3)
    for other in (
        status,
        replace(status, steps_done=0),
        by_script,
        Evidence(exit=None, steps_done=4),
    ):
        assert diagnose(other).advice != ENDED_AT_ONCE


def test_no_room_to_begin_is_a_full_disk() -> None:
    """Nothing else is left to tell it."""
    evidence = Evidence(exit=ours(74), no_room=True)
    assert cause(evidence) is Cause.DISK_FULL
    assert cause(replace(evidence, no_room=False)) is Cause.UNKNOWN


OWN = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise DatasetCorrupted("shard 17")
DatasetCorrupted: shard 17
"""


def test_an_exception_of_the_script_is_quoted_as_python_names_it() -> None:
    """Whatever its name ends in; not the word Traceback, nor the line that raised it."""
    report = crash("__main__.DatasetCorrupted", "shard 17", OWN.replace("\nData", "\n"))
    diagnosis = diagnose(Evidence(exit=ours(1), crash=report, log=seen(OWN)))
    assert diagnosis.cause is Cause.USER_ERROR
    quoted = [reason.text for reason in diagnosis.because]
    assert quoted[0] == "DatasetCorrupted: shard 17"
    assert not any("Traceback" in text for text in quoted)
    source = '    raise BadZipFile("File is not a zip file")\n'
    archive = crash("zipfile.BadZipFile", "File is not a zip file", source)
    first = diagnose(Evidence(exit=ours(1), crash=archive)).because[0]
    assert first.text == "zipfile.BadZipFile: File is not a zip file"
    group = crash("ExceptionGroup", "no data (1 sub-exception)", "  | ValueError: a\n")
    first = diagnose(Evidence(exit=ours(1), crash=group)).because[0]
    assert first.text == "ExceptionGroup: no data (1 sub-exception)"
    bare = crash("RuntimeError", "")
    assert (
        diagnose(Evidence(exit=ours(1), crash=bare)).because[0].text == "RuntimeError"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("builtins.OSError", "[Errno 30] Read-only file system: 'model.keras'"),
        (
            "builtins.OSError",
            (
                "[Errno 30] Unable to synchronously create file (unable to open file: name ="
                " 'm.h5', errno = 30, error message = 'Read-only file system', flags = 13)"
            ),
        ),
        (
            "tensorflow.python.framework.errors_impl.FailedPreconditionError",
            "/ro/logs; Read-only file system",
        ),
    ],
)
def test_a_read_only_file_system_is_one_that_was_written_to(
    name: str, message: str
) -> None:
    """No input data: nobody who reads is told EROFS. What is advised fits what is done:
    one restart after the first step."""
    assert "does not change that" not in NOT_WRITABLE
    assert "after the first step there is one" in NOT_WRITABLE
    found = diagnose(Evidence(exit=ours(1), crash=crash(name, message)))
    assert (found.cause, found.advice) == (Cause.USER_ERROR, NOT_WRITABLE)
    told = verdict_sentence(found)
    assert told.startswith(
        "the script could not write a file: its file system is read-"
    )
    assert message[:20] in told


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("builtins.KeyError", "'a'", Cause.USER_ERROR),
        ("builtins.FileNotFoundError", "[Errno 2] No such file or directory: '/d/t'", Cause.DATA_ERROR),
    ],
)  # fmt: skip
def test_a_read_only_file_system_that_the_script_put_up_with_is_not_the_cause(
    name: str, message: str, expected: Cause
) -> None:
    """A library's cache, most often: printed, and passed over."""
    log = seen("OSError: [Errno 30] Read-only file system: '/root/.cache/x'\n")
    found = diagnose(Evidence(exit=ours(1), crash=crash(name, message), log=log))
    assert found.cause is expected
    assert found.advice != NOT_WRITABLE
    assert "read-only" not in verdict_sentence(found).partition(":")[0]


def test_a_command_of_the_script_that_failed_is_its_own_error() -> None:
    """In a log the same words are a launcher's, which know no more than a status."""
    said = "Command '['x']' returned non-zero exit status 2."
    report = crash("subprocess.CalledProcessError", said)
    assert cause(Evidence(exit=ours(1), crash=report)) is Cause.USER_ERROR
    logged = seen(f"subprocess.CalledProcessError: {said}\n")
    assert diagnose_log(logged).cause is Cause.UNKNOWN


def test_what_a_script_says_with_its_exit_is_quoted() -> None:
    """``sys.exit("…")`` prints it and ends with 1."""
    left = Evidence(
        exit=ours(1), script_exit_code=1, script_exit_message="\n  /data is empty\nbye"
    )
    assert diagnose(left).because[0].text.endswith("saying: /data is empty")


def test_an_interrupt_of_the_scripts_own_came_from_nobody_outside() -> None:
    """A KeyboardInterrupt that no signal made is an error of the script; where a signal
    may have made it, somebody outside ended it."""
    report = crash("KeyboardInterrupt", "")
    log = seen("Traceback (most recent call last):\nKeyboardInterrupt\n")
    evidence = Evidence(exit=ours(130), crash=report, log=log)
    assert diagnose(evidence).cause is Cause.PREEMPTED
    own = diagnose(replace(evidence, crash=replace(report, unprompted=True)))
    assert own.cause is Cause.USER_ERROR
    assert "raised KeyboardInterrupt itself" in own.because[0].text


KERAS_COVER = (
    "Exception encountered when calling Sequential.call().\n\n\x1b[1mInput 0 of layer"
    " 'dense' is incompatible with the layer\x1b[0m\n\nArguments received:\n  • inputs=x\n"
)
GRAPH_COVER = (
    "Graph execution error:\n\nDetected at node loss/x defined at (most recent call last):\n"
    '  File "train.py", line 6, in <module>\n\n<stack traces unavailable>\n'
    "Received a label value of 10 which is outside the valid range of [0, 10).\n"
    "\t [[{{node loss/x}}]] [Op:__inference_multi_step_952]"
)


@pytest.mark.parametrize(
    ("name", "message", "told"),
    [
        (
            "ValueError",
            KERAS_COVER,
            (
                "ValueError: Exception encountered when calling Sequential.call()."
                " Input 0 of layer 'dense' is incompatible with the layer"
            ),
        ),
        (
            "tensorflow.python.framework.errors_impl.InvalidArgumentError",
            GRAPH_COVER,
            (
                "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph"
                " execution error: Received a label value of 10 which is outside the valid"
                " range of [0, 10)."
            ),
        ),
        (
            "RuntimeError",
            "Graph execution error:",
            "RuntimeError: Graph execution error:",
        ),
        ("KeyError", "'x'\nmore", "KeyError: 'x'"),
        ("KeyError", "", "KeyError"),
    ],
)
def test_the_first_words_say_what_is_wrong(name: str, message: str, told: str) -> None:
    """A framework's cover alone says nothing: it is what a person reads first, and in
    many places alone."""
    diagnosis = diagnose(Evidence(exit=ours(1), crash=crash(name, message)))
    assert diagnosis.cause is Cause.USER_ERROR
    assert diagnosis.because[0].text == told
    others = [one.text for one in diagnosis.because[1:]]
    assert not [text for text in others if text in told]


def test_a_log_that_has_the_cover_does_not_hide_the_rest() -> None:
    """Its line is the first of the exception, which says more."""
    name = "tensorflow.python.framework.errors_impl.InvalidArgumentError"
    log = seen(f"Traceback (most recent call last):\n{name}: {GRAPH_COVER}\n")
    found = diagnose(Evidence(exit=ours(1), crash=crash(name, GRAPH_COVER), log=log))
    assert "Received a label value of 10" in found.because[0].text


def test_text_that_is_none_is_left_as_it_is() -> None:
    """Nothing is said by nothing."""
    assert opening(" ") == " "


def test_memory_refused_again_and_again_is_out_of_memory() -> None:
    """Our SIGKILL is no stall then: the log says what ran out."""
    refused = Killed(reason=KillReason.REFUSED, sentence="memory ran out 8 times")
    killed = Evidence(exit=ours(signal=9), killed=refused)
    assert cause(killed) is Cause.DEVICE_OOM
    log = seen(
        "W0000 00:00:1795730577.339990    6642 bfc_allocator.cc:502] Allocator"
        " (GPU_0_bfc) ran out of memory trying to allocate 2.09GiB (rounded to"
        " 2248154624)requested by op \n"
    )
    told = diagnose(replace(killed, log=log))
    assert told.cause is Cause.DEVICE_OOM
    first, second = told.because[:2]
    assert (first.text, first.code) == ("memory ran out 8 times", KillReason.REFUSED)
    assert "GPU_0_bfc" in second.text
