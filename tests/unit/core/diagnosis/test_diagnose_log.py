"""From the lines of a log alone to a cause: which of them wins."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import SIGKILL_FROM_OUTSIDE
from supervisor.core.diagnosis.diagnose import diagnose, diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.scoring import KILLED_ELSEWHERE
from tests.support.evidence import FAULT, HOLES, OOM, STEPS, ours, seen


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


def test_what_is_said_mildly_is_a_hint() -> None:
    """A warning of Python's, and what glog marks as information."""
    for mild in (
        "a.py:12: UserWarning: CUDA error: an illegal memory access was encountered\n",
        "I0102 10:00:00.1 1 a.cc:1] NCCL operation x failed\n",
    ):
        assert diagnose_log(seen(mild)).cause is Cause.NONE
        failed = diagnose_log(seen(mild), evidence=Evidence(exit=ours(1)))
        assert failed.cause in {Cause.CUDA_FAULT, Cause.NCCL}


def test_an_allocator_s_warning_may_be_taken_back_on_the_next_line() -> None:
    """A console broke the line before the words that say it is no failure."""
    said = "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.06GiB.\n"
    back = "  The caller indicates that this is not a failure, but may mean\n"
    assert diagnose_log(seen(said)).cause is Cause.DEVICE_OOM
    assert diagnose_log(seen(said + back)).cause is Cause.NONE


def test_a_known_exit_status_needs_no_line_about_it() -> None:
    """That a process failed is said best by its status; alone, the line is all."""
    log = seen("subprocess ended with exit code 3\n")
    assert diagnose_log(log).cause is Cause.UNKNOWN
    assert diagnose_log(log).because[0].signature == "launcher.nonzero_exit"
    known = diagnose(Evidence(exit=ours(3), log=log))
    assert "launcher.nonzero_exit" not in {each.signature for each in known.because}


def test_sigkill_elsewhere_is_nobodys_for_certain() -> None:
    """Of a log alone: no counter was read, and a line that something failed is quoted; of
    an attempt of ours it is told who did not send it."""
    killed = Evidence(exit=ours(137))
    for text, quoted in (("8/8 - loss: 0.5\n", []), ("Worker 3 died\n", [1])):
        found = diagnose_log(seen(text), evidence=killed)
        assert (found.cause, found.advice) == (Cause.PREEMPTED, SIGKILL_FROM_OUTSIDE)
        assert found.because[0].signature == KILLED_ELSEWHERE
        assert [one.line for one in found.because[1:]] == quoted
    assert "did not send it" in diagnose(killed).because[1].text
