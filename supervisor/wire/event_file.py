"""The event file: what happened in an attempt, one JSON object a line, append-only.

Each append is one ``write`` to a descriptor in append mode, so that records never
interleave and a kill leaves at most one broken last line. Readers keep an offset and
take whole lines; a line that is no record is counted, not believed.
"""

import contextlib
import errno
import json
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from supervisor.wire.files import Held
from supervisor.wire.room_ahead import take_room

MAX_LINE_BYTES = 1024 * 1024
"""Longer lines are no records of ours."""
POLL_BYTES = 4 * MAX_LINE_BYTES
"""Read at most in one call."""
POLL_LINES = 64 * 1024
"""... and so many lines, which takes a second: of lines that are hardly anything there
would be millions, and all runs would wait for them."""
MOST_NS = 2**63
"""No time of ours; nor may what a file says be too much for a float, or the ledger."""
ROOM_BYTES = 64 * 1024
"""Taken ahead of the end of the file: some 300 records."""
MOST_LATE = 4096
"""Records that wait for room; of more the oldest go."""
LOCKED_SECONDS = 1.0
"""How long one waits for another thread's write."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM})
"""What the kernel says where there is no space, or no quota, left."""


class RecordKind:
    """The kinds of records, with the fields each carries beside ``kind`` and ``ns``."""

    LAUNCHED = "launched"
    """``versions``: of Python, TensorFlow, Keras (those loaded)."""
    REFUSED = "refused"
    """``reason`` (``reasons.RefusalReason``), ``sentence``: why this script cannot be
    supervised as promised; training did not start."""
    PROMISE = "promise"
    """``fit, bits``: bool, ``sentence``: why bits are not promised of that call of
    fit (at its start)."""
    FIT_BEGAN = "fit_began"
    """``fit, epochs, steps_per_epoch, batch``; null where unknown; ``model``: a digest
    of what decides the memory of a step beside the batch; ``sliceable``: whether this
    backend of Keras can work through a batch in slices (older ones do not tell). What PEAK and MICROBATCH
    tell belongs to the call that began last."""
    RESTORED = "restored"
    """``snapshot`` (its directory name), ``tier, step, fit, epoch, seconds`` and
    ``quarantined``: [{``snapshot``, ``because``}]. During a proof: of the newer one."""
    PROOF = "proof"
    """``result`` (``proof.Proof``), ``because``: what differs, or why there is none;
    ``from_step``, ``step``: from the older snapshot to the newer; at its end ``steps,
    tensors, seconds``: what was compared, and what it took beside the first step, and
    ``ends``: the attempt does, for the next to go on from the newer snapshot."""
    FIRST_STEP = "first_step"
    """``step``, ``seconds``: tracing, compiling and running it; of a loop of the script's
    own there are no seconds, as it is known only when it is over."""
    OWN_STEP = "own_step"
    """The first step outside of ``fit`` begins, or is traced; once for each loop."""
    NO_STEP_SEEN = "no_step_seen"
    """The script has run for a minute without a ``fit`` or a step that is seen."""
    PEAK = "peak"
    """``slice_size, slices, peak_bytes, limit_bytes, jit``: measured over whole
    steps of this attempt at this slice. ``usual_bytes``, ``steps``: their median, and
    how many they were; not there where only the highest is known."""
    MICROBATCH = "microbatch"
    """``batch, slices, size, mode`` (``exact``, ``two_pass``, ``reduce``),
    ``deviations``: [sentences], ``source`` (``reasons.SizeSource``) and ``planned``, a
    sentence: how the size was found; ``near_limit`` (``near_limit.NearLimit``): a step came
    so near the memory limit that it was changed, or would have been; else not there."""
    PHASE_PEAK = "phase_peak"
    """The fields of ``phase_peaks.PhasePeak``: a phase of an epoch is over, and needed more
    or less memory than was told."""
    EPOCH_MEMORY = "epoch_memory"
    """The fields of ``phase_peaks.EpochMemory``: the first step of an epoch is done, and
    more or less is in use than was told."""
    STEP_NEEDS = "step_needs"
    """The fields of ``step_needs.StepNeeds``: of the first ``fit``, under a limit or on a
    GPU; before its first step without a peak, and once more after the first few."""
    EPOCH_ENDED = "epoch_ended"
    """``epoch``, ``step``, ``logs``: {name: number}."""
    SNAPSHOT = "snapshot"
    """``snapshot`` (directory name), ``tier`` (``memory``, ``durable``), ``step,
    bytes, stall_seconds, seconds``: once for each tier that has it, but for those in
    memory that follow each other closely: the newest of these, and ``snapshots``, how
    many they are."""
    SNAPSHOT_FAILED = "snapshot_failed"
    """``step``, ``tier``, ``because``, ``errno`` (null: none): of a tier that has no
    room at all for snapshots too."""
    SNAPSHOT_PLAN = "snapshot_plan"
    """``memory_seconds, durable_seconds`` (null: no such tier, or by steps),
    ``because``: when snapshots are taken from here on."""
    FIT_ENDED = "fit_ended"
    """``fit, step``."""
    FIT_FAILED = "fit_failed"
    """``fit, step``: an exception left the call of fit, and it is not made again here.
    Training may be over with it, or the script catches it and goes on."""
    DRAINED = "drained"
    """``step``, ``snapshot``: the state is saved and the process ends with 75."""
    NON_FINITE = "non_finite"
    """``step, last_finite_step`` (null: none was seen), ``loss``, ``because``: loss and
    weights are no numbers any more, and the process ends."""
    STEP_FAILED = "step_failed"
    """``number`` (from 1, counted in the attempt), ``step``: training stands still at a
    step that failed, and asks whether to go on in this process; why it failed stands in
    ``AttemptPaths.failure``."""
    GOES_ON = "goes_on"
    """``number, step, log_bytes``: it was allowed, and does: what the log said before its
    first ``log_bytes`` bytes is over."""
    APPLIED = "applied"
    """``name`` (a field of the directive, or an environment variable of its remedies),
    ``asked``, ``found``: the value that is in force in this process. The newest counts."""
    EVIDENCE = "evidence"
    """The fields of ``step_evidence.StepEvidence``: seldom, and at the end of a ``fit``."""
    MODEL_MEMORY = "model_memory"
    """``wire.records.estimate_records.ModelMemory``: only where an estimate was asked for."""
    STEP_MEMORY = "step_memory"
    """``wire.records.estimate_records.StepMemory``: as above, once for each size that was tried."""
    ESTIMATED = "estimated"
    """As above: all was measured, and the process ends. ``because``: why no larger size was
    tried; empty: the one that was asked for was."""
    TRIAL_FIT = "trial_fit"
    """``wire.records.trial_records.TrialFit``: only where a trial was asked for."""
    TRIAL_STEP = "trial_step"
    """``wire.records.trial_records.TrialStep``: as above, once for each call."""
    TRIAL_END = "trial_end"
    """``wire.records.trial_records.TrialEnd``: as above; the process ends."""
    NOTICE = "notice"
    """``sentence``: for the person who runs this."""
    FINISHED = "finished"
    """The script came to its end; ``exit_code``, and ``message``: what it passed to
    ``sys.exit`` in the place of a number."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its kind, its monotonic time, and the fields of that kind."""

    kind: str
    ns: int
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


def encode(record: Record) -> bytes:
    """One line."""
    value = {"kind": record.kind, "ns": record.ns, **record.fields}
    return json.dumps(value, separators=(",", ":"), default=str).encode() + b"\n"


def parse_line(line: bytes) -> Record | None:
    """The record in ``line``; None for anything else, however strange."""
    if len(line) > MAX_LINE_BYTES or not line.startswith(b"{"):
        return None
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    named = cast("dict[str, Any]", value)
    kind, ns = named.pop("kind", None), named.pop("ns", None)
    if not isinstance(kind, str) or type(ns) is not int or not 0 <= ns < MOST_NS:
        return None
    return Record(kind, ns, named)


class EventWriter:
    """The training side: appends records. Safe from several threads, and from the handler
    of a signal that interrupts one of them.

    A full disk must not keep quiet about itself: room for the next records is taken ahead,
    and what finds none is written, in its order, once there is some again. Of a line that
    was written in part the rest comes first, so that no other is lost in it.
    """

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending. Raises OSError."""
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640
        )
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._writing = False
        self._late: deque[bytes] = deque()
        """What is still to be written; the first may be the rest of a line."""
        self._size = os.fstat(self._descriptor).st_size
        self._room_until = 0
        self._take_room()

    def append(self, kind: str, **fields: Any) -> None:
        """Append one record. A full disk delays the record, not the training."""
        line = encode(Record(kind, time.monotonic_ns(), fields))
        if os.getpid() != self._pid:  # forked: what is late is the parent's to write
            with contextlib.suppress(OSError):
                os.write(self._descriptor, line)
            return
        self._late.append(line)
        while self._late:
            if not self._lock.acquire(timeout=LOCKED_SECONDS):
                return
            try:
                if self._writing:  # a handler amid a write of its own thread
                    self._write_at_once()
                    return
                self._writing = True
                try:
                    written = self._write()
                finally:
                    self._writing = False
            finally:
                self._lock.release()
            if not written:
                return

    def _write_at_once(self) -> None:
        """Write all that waits past a write that was interrupted: a handler that says
        something ends the process (``trainers.process.signals``), and that write never
        goes on. What it has written already is known by the size of the file."""
        lines = list(self._late)
        with contextlib.suppress(OSError):
            unnoted = os.fstat(self._descriptor).st_size - self._size
            whole = bool(lines) and unnoted == len(lines[0])
            os.write(self._descriptor, b"".join(lines[1:] if whole else lines))

    def _write(self) -> bool:
        """Write all that is late; False: there is no room for it now."""
        while self._late:
            line = self._late[0]
            try:
                count = os.write(self._descriptor, line)
            except OSError:
                while len(self._late) > MOST_LATE:
                    del self._late[1]
                return False
            self._size += count
            if count < len(line):
                self._late[0] = line[count:]
                continue
            self._late.popleft()
            self._take_room()
        return True

    def _take_room(self) -> None:
        if self._room_until - self._size >= ROOM_BYTES // 2:
            return
        if take_room(self._descriptor, self._size, ROOM_BYTES):
            self._room_until = self._size + ROOM_BYTES


class EventReader:
    """The supervisor's side: new whole lines since the last ``poll``."""

    def __init__(self, path: Path) -> None:
        self._file = Held(path)
        self._offset = 0
        self.rejected = 0
        """Lines that were no records."""
        self.behind = False
        """Whether there was more than the last ``poll`` read."""

    def poll(self, *, at_most_bytes: int = POLL_BYTES) -> list[Record]:
        """The next records; at most ``at_most_bytes`` are read in one call."""
        self.behind = False
        try:
            descriptor = self._file.descriptor()
            new = os.fstat(descriptor).st_size - self._offset
            if new <= 0:
                return []
            content = os.pread(descriptor, min(new, at_most_bytes), self._offset)
            self.behind = new > at_most_bytes
        except OSError:
            self._file.close()  # what can no longer be read from is opened anew
            return []
        *lines, rest = content.split(b"\n", POLL_LINES)
        if not lines and len(rest) > MAX_LINE_BYTES:
            lines, rest = [rest], b""  # without end: skip it rather than wait for it
        self.behind = self.behind or b"\n" in rest
        self._offset += len(content) - len(rest)
        records: list[Record] = []
        for line in lines:
            record = parse_line(line)
            if record is None:
                self.rejected += 1
            else:
                records.append(record)
        return records

    def pass_over(self) -> None:
        """Go on with the last ``POLL_BYTES``, where more is left to read."""
        with contextlib.suppress(OSError):
            size = os.fstat(self._file.descriptor()).st_size
            self._offset = max(self._offset, size - POLL_BYTES)

    def close(self) -> None:
        """Give the file back; ``poll`` opens it again."""
        self._file.close()
