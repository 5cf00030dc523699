"""Stacks of threads, as faulthandler writes them: where a hanging process stood, and what
a crashed one asked memory for.

A tensor made of a NumPy array gets a null pointer where there is no memory, and the
process ends by a signal (TensorFlow 2.21, ``constant_op.py``): no exception tells what
memory was asked for, but the stack does.
"""

import re
from dataclasses import dataclass

from supervisor.wire.records.oom_subject import OomSubject

FRAMES = 4
"""The innermost frames of the main thread tell what it waited for."""

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+")
_FRAME = re.compile(
    r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<name>.+)'
)
_SPY_THREAD = re.compile(r"Thread \d+ ")


def where(stacks: str) -> list[str]:
    """The innermost frames of the main thread, the innermost first; often empty.

    faulthandler lists threads with the newest first: the last one is the main thread.
    py-spy's come after them, and do not count here.
    """
    frames: list[str] = []
    for line in stacks.splitlines():
        if _SPY_THREAD.match(line):
            break
        if _THREAD.match(line):
            frames = []
        found = _FRAME.match(line)
        if found is not None and len(frames) < FRAMES:
            frames.append(_named(found))
    return frames


_RAISED = re.compile(
    r'^[\s|]*(?P<place>File "(?P<file>[^"\n]+)", line \d+(?:, in .+)?)$', re.MULTILINE
)
"""A frame of a traceback; of a SyntaxError, without a function. In a group of exceptions
behind bars."""
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/(?:python|pypy)\d|^<")


def place_in_script(traceback: str) -> str | None:
    """The innermost frame of a ``traceback`` that is no library's, as Python prints it: of
    exceptions in a chain that of the last; None: there is none."""
    frames = _RAISED.finditer(traceback)
    own = [one["place"] for one in frames if not _LIBRARY.search(one["file"])]
    return own[-1].strip() if own else None


_NOT_SCRIPT = re.compile(rf"{_LIBRARY.pattern}|/trainers/(?:launch\.py$|process/)")
"""Ours are not below site-packages where they run from a checkout."""
_CURRENT = re.compile(r"^Current thread .*\n((?:  File .*\n?)+)", re.MULTILINE)
_FATAL = "Fatal Python error: "
MOST_STACKS = 48 * 1024
"""Characters of the stacks of a crash that are kept."""


def stacks_of_crash(fault: str) -> str:
    """What faulthandler wrote as the process crashed, up to a bound: without the stacks that
    it was asked for before. Empty: it wrote none."""
    at = fault.rfind(_FATAL)
    if at < 0 or _THREAD.search(fault, at) is None:
        return ""
    told = fault[at:].rstrip()
    return told if len(told) <= MOST_STACKS else f"{_shorter(told)}\n…"


def _shorter(told: str) -> str:
    """The crashed thread is in it, wherever it stands in the list."""
    current = current_thread(told)
    return f"{told[: MOST_STACKS - len(current)]}\n…\n\n{current}"[:MOST_STACKS]


def current_thread(stacks: str) -> str:
    """The stack of the thread that crashed, as faulthandler wrote it; empty: it is not
    there."""
    found = _CURRENT.search(stacks)
    return found[0].rstrip() if found else ""


def crashed_in(stacks: str) -> list[str]:
    """Where the thread that crashed was, in a sentence a frame: the innermost, and the
    innermost of the script."""
    frames = [
        one for one in map(_FRAME.match, current_thread(stacks).splitlines()) if one
    ]
    own = [one for one in frames[1:] if not _NOT_SCRIPT.search(one["file"])]
    return [
        f"{'It crashed in' if at == 0 else 'called by'} {_named(one)}"
        for at, one in enumerate([*frames[:1], *own[: FRAMES - 2]])
    ]


def _named(frame: re.Match[str]) -> str:
    return f"{frame['name']} ({frame['file']}, line {frame['line']})"


GENERATOR = "tensorflow/python/ops/script_ops.py"
"""Python code below an op: what it makes tensors of is a batch, not the data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Which frames tell of a subject."""

    subject: OomSubject
    path: str
    """The file's path contains this."""
    functions: frozenset[str] = frozenset()
    """Empty: any."""
    in_fit: bool | None = None
    """True: tells only while a ``fit`` runs; False: only while none does."""

    def matches(self, path: str, function: str) -> bool:
        """Whether the frame of ``function`` in ``path`` is one."""
        return self.path in path and (not self.functions or function in self.functions)


ROWS = (
    Row(
        subject=OomSubject.OPTIMIZER,
        path="keras/src/optimizers/",
        functions=frozenset(
            {"build", "add_variable", "add_variable_from_reference"}
            | {"add_optimizer_variables"}
        ),
    ),
    Row(subject=OomSubject.WEIGHTS, path="keras/src/backend/common/variables.py"),
    Row(
        subject=OomSubject.WEIGHTS,
        path="eager/polymorphic_function/polymorphic_function.py",
        functions=frozenset({"_initialize_uninitialized_variables"}),
    ),
    Row(subject=OomSubject.DATA, path="data/ops/from_tensor_slices_op.py"),
    Row(subject=OomSubject.DATA, path="data/ops/from_tensors_op.py"),
    Row(subject=OomSubject.DATA, path="keras/src/trainers/data_adapters/"),
    Row(  # the pipeline's arrays are copied: in TensorFlow that may fault for want of room
        subject=OomSubject.DATA,
        path="tensorflow/python/data/ops/iterator_ops.py",
        functions=frozenset({"_create_iterator"}),
    ),
    Row(
        subject=OomSubject.DATA,
        path="tensorflow/python/framework/constant_op.py",
        functions=frozenset({"convert_to_eager_tensor"}),
        in_fit=False,
    ),
    Row(
        subject=OomSubject.EVALUATION,
        path="keras/src/backend/tensorflow/trainer.py",
        functions=frozenset({"evaluate"}),
        in_fit=True,
    ),
    Row(
        subject=OomSubject.OUTSIDE,
        path="keras/src/backend/tensorflow/trainer.py",
        functions=frozenset({"evaluate", "predict"}),
        in_fit=False,
    ),
)
"""In the order in which they are asked (Keras 3.15, TensorFlow 2.21)."""


def subject_in_stack(stacks: str, *, in_fit: bool) -> OomSubject | None:
    """What the thread that crashed was asking memory for; None: its stack tells nothing.

    ``in_fit``: whether a ``fit`` was running.
    """
    found = _CURRENT.search(stacks)
    lines = found[1].splitlines() if found else ()
    frames = [(one["file"], one["name"]) for one in map(_FRAME.match, lines) if one]
    if any(GENERATOR in path for path, _ in frames):
        return None
    for row in ROWS:
        tells = row.in_fit in {None, in_fit}
        if tells and any(row.matches(path, function) for path, function in frames):
            return row.subject
    return None


def named_subject(value: str | None) -> OomSubject | None:
    """The subject that a crash report names; None: none, or one of a newer version."""
    return OomSubject(value) if value in set(OomSubject) else None
