"""From the stacks of a hanging process to where its main thread stood."""

from supervisor.core.diagnosis.stack_traces import FRAMES, where

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
