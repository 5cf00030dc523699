"""From the stacks of a hanging process to where its main thread stood."""

from supervisor.core.diagnosis.stack_traces import (
    FRAMES,
    MOST_STACKS,
    crashed_in,
    current_thread,
    stacks_of_crash,
    where,
)

FAULTHANDLER = """Python (faulthandler):
Thread 0x00007f1 (most recent call first):
  File "/lib/threading.py", line 320 in wait
  File "/lib/threading.py", line 1045 in _bootstrap

Current thread 0x00007f2 (most recent call first):
  File "train.py", line 9 in fetch
  File "train.py", line 12 in <module>

With native frames (py-spy):
Thread 5 (idle): "MainThread"
  File "other.py", line 1 in other
"""


def test_the_main_thread_is_the_last_that_faulthandler_lists() -> None:
    """Its innermost frame comes first."""
    assert where(FAULTHANDLER) == [
        "fetch (train.py, line 9)",
        "<module> (train.py, line 12)",
    ]


def test_only_the_innermost_frames_are_quoted() -> None:
    """The whole of it is in the incident."""
    deep = "".join(f'  File "a.py", line {n} in f{n}\n' for n in range(50))
    assert len(where(f"Thread 0x1 (most recent call first):\n{deep}")) == FRAMES
    assert where("") == []


CRASH = """Fatal Python error: Segmentation fault

Thread 0x00007f1 (most recent call first):
  File "/env/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f2 (most recent call first):
  File "/env/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "train.py", line 16 in on_train_batch_end
  File "/env/lib/python3.11/site-packages/keras/src/callbacks.py", line 220 in fit
  File "/srv/checkout/trainers/process/hooks/framework_setup.py", line 397 in fit
  File "train.py", line 22 in <module>
  File "/srv/checkout/trainers/launch.py", line 17 in <module>

Extension modules: numpy (total: 1)
"""


def test_of_a_crash_the_innermost_frame_and_those_of_the_script_are_told() -> None:
    """Neither the libraries between them nor Trainwarden is where one looks."""
    assert crashed_in(CRASH) == [
        "It crashed in string_at (/env/lib/python3.11/ctypes/__init__.py, line 519)",
        "called by on_train_batch_end (train.py, line 16)",
        "called by <module> (train.py, line 22)",
    ]
    assert crashed_in("") == []


def test_the_stacks_of_a_crash_are_what_follows_the_fatal_error() -> None:
    """Not those that somebody had asked for, and none where Python wrote none."""
    assert stacks_of_crash(FAULTHANDLER + CRASH) == CRASH.rstrip()
    assert stacks_of_crash(FAULTHANDLER) == ""
    assert stacks_of_crash("Fatal Python error: Segmentation fault\n") == ""


def test_however_many_threads_there_are_that_which_crashed_is_kept() -> None:
    """It may be the last that is listed."""
    thread = 'Thread 0x1 (most recent call first):\n  File "a.py", line 1 in a\n\n'
    many = CRASH.replace("Thread 0x00007f1", thread * 2000 + "Thread 0x00007f1", 1)
    kept = stacks_of_crash(many)
    assert len(kept) <= MOST_STACKS + len("\n…\n\n\n…")
    assert current_thread(kept).count("\n") == CRASH.count("line") - 1
    assert "string_at" in kept
