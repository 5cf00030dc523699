"""Tracebacks that end no run, told by what stands around them.

An exception that ends a program is printed bare, and its first frame is the script's.
Python prints others with a heading (a finaliser's, a thread's, a task's that nobody waited
for), and libraries log those that they handled. Here are those of which the program does
not take notice; an exception in a thread that loads data, say, is not among them.
"""

import re

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import Signature, Where

TRACEBACK = "python.traceback"
"""The row of a traceback's first line."""
AROUND = 8192
"""Bytes before and behind a line that are looked at."""
_ABOVE = 600
_HEADER = b"Traceback (most recent call last)"
_HEADED = re.compile(
    rb"(?:Exception ignored |--- Logging error ---|Error in atexit|Exception in callback"
    rb"|(?:Task|Future) exception was never retrieved)[^\n]*\n(?:(?:future|handle): [^\n]*\n)?"
    rb"\s*\Z"
)
"""cpython: unraisable exceptions, Lib/logging, atexit, Lib/asyncio/base_events.py."""
_THREAD = re.compile(rb"Exception in thread [^\n]*\n\s*\Z")
"""cpython: Lib/threading.py. The other threads go on."""
_CHAINED = re.compile(rb"The above exception was|During handling of the above")
_WATCHES = re.compile(
    rb"[/\\](?:wandb|tensorboard\w*|event_file_writer\w*|comet_ml|mlflow|neptune|clearml|trains"
    rb"|aim|swanlab|codecarbon|tqdm|prometheus_client|sentry_sdk|GPUtil|pynvml\w*|psutil|visdom"
    rb"|trackio|dvclive|logging|opentelemetry|carbontracker|_tfmw|pyinstrument)(?:[/\\]|\.py)"
)
"""Files of what watches a run and does nothing for it."""
_LOGGED = re.compile(
    rb"(?:\b(?P<mild>WARN(?:ING)?|[Ww]arning|INFO|DEBUG)\b|\bERROR\b"
    rb"|(?:[Cc]ould not|[Uu]nable to|[Ff]ailed to|[Cc]annot) (?:load|import)\b)[^\n]*\n\s*\Z"
)
"""A record of a logger, or what a library prints of another that it looked for."""
_FINALISED = re.compile(
    rb'\s*File "[^"\n]*(?:multiprocessing[/\\]util\.py", line \d+, in _run_finalizers'
    rb'|", line \d+, in __del__\b)'
)
"""cpython: Lib/multiprocessing/util.py prints what was raised there, and goes on; so does
Python of a finaliser, whose heading may be lost."""
_FIRST_FRAME = re.compile(
    rb'\s*File "[^"\n]*-packages[^"\n]*", line \d+, in (?P<name>\S+)'
)
"""The first frame that a program does not handle is its script's, not a library's."""
_MAY_DO_WITHOUT = frozenset(
    {
        Cause.USER_ERROR,
        Cause.DATA_ERROR,
        Cause.UNKNOWN,
        Cause.NCCL,
        Cause.VERSION_MISMATCH,
    }
)
"""Of memory, disks and devices it tells whoever notices it."""


def ends_nothing(signature: Signature, block: bytes, start: int) -> bool:
    """Whether the line at ``start``, which ``signature`` recognised, is of such a
    traceback: its first line, or the exception below it."""
    header, raised = signature.id == TRACEBACK, signature.where is Where.EXCEPTION
    dispensable = signature.cause in _MAY_DO_WITHOUT
    if not (dispensable or raised):
        return False
    at = start if header else block.rfind(_HEADER, max(0, start - AROUND), start)
    if at < 0:
        return False
    above = _above_chain(block, at)
    frames, below = _parts(block, at)
    own = header or start == below
    if _HEADED.search(above):
        return own or raised
    rest = block[below : below + AROUND]
    return own and dispensable and _passed_over(above, frames, rest)


def _passed_over(above: bytes, frames: bytes, below: bytes) -> bool:
    """Whether it is of a thread that only watches, or was handled where it was printed."""
    if _THREAD.search(above):
        return _WATCHES.search(frames) is not None
    return _FINALISED.match(frames) is not None or _was_logged(above, frames, below)


def _above_chain(block: bytes, at: int) -> bytes:
    """What stands above the first of the tracebacks of which that at ``at`` is one."""
    at = block.rfind(b"\n", 0, at) + 1
    above = block[max(0, at - _ABOVE) : at]
    while _CHAINED.search(above[-120:]):
        first = block.rfind(_HEADER, max(0, at - AROUND), at)
        if first < 0:
            break
        at = block.rfind(b"\n", 0, first) + 1
        above = block[max(0, at - _ABOVE) : at]
    return above


def _parts(block: bytes, at: int) -> tuple[bytes, int]:
    """The frames below a traceback's first line, and where what is below them begins."""
    begin = block.find(b"\n", at) + 1 or len(block)
    here = begin
    while (
        here < len(block) and here - begin < AROUND and block[here : here + 1].isspace()
    ):
        here = block.find(b"\n", here) + 1 or len(block)
    return block[begin:here], here


def _was_logged(above: bytes, frames: bytes, below: bytes) -> bool:
    """Whether a library logged it: as a warning, or as it was imported; and something
    came after it."""
    record, first = _LOGGED.search(above), _FIRST_FRAME.match(frames)
    if record is None or first is None:
        return False
    _, _, after = below.partition(b"\n")
    mild = record["mild"] is not None
    return bool(after.strip()) and (mild or first["name"] == b"<module>")
