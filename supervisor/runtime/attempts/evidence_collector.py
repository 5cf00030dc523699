"""The evidence about an attempt that ended, gathered from its files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import NATIVE, signal_of
from supervisor.core.diagnosis.log_scanner import NO_FINDINGS, LogFindings
from supervisor.core.diagnosis.stack_traces import (
    named_subject,
    stacks_of_crash,
    subject_in_stack,
)
from supervisor.core.diagnosis.systemd_result import UnitEnd
from supervisor.core.lifecycle.events import Exited
from supervisor.core.memory.bfc_map import MemoryMap, figures_of
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.oom_analysis import OomFindings
from supervisor.host.snapshots.snapshot_catalog import (
    newest_step,
    read_manifest,
    snapshot_directories,
)
from supervisor.host.telemetry.allocator_dump import read_first_map
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.attempt_view import AttemptView
from supervisor.host.telemetry.log_follower import LogFollower, scan_file
from supervisor.wire.files import open_regular, read_json
from supervisor.wire.messages.directive import EXIT_NO_ROOM
from supervisor.wire.messages.memory_answer import MemoryAnswer
from supervisor.wire.page import Page
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.end_records import CrashReport, ExitRecord
from supervisor.wire.records.oom_subject import OomSubject


def gather(
    files: AttemptPaths,
    *,
    telemetry: Telemetry,
    log: LogFollower,
    cpu_limit: int | None,
    snapshots: Sequence[Path | None],
    oom_kills: int | None = None,
    unit: UnitEnd | None = None,
    asks: bool = False,
) -> Exited:
    """What is known of the end of the attempt in ``files``, all processes gone.

    ``snapshots``: the tiers. ``cpu_limit``: bytes that the supervisor let the CPU
    allocator have. ``oom_kills``: how many the kernel counted in the attempt's cgroup while it
    ran, as far as we saw; the shim has seen it to its end. ``unit``: what systemd says, which
    counts where there is no exit record. ``asks``: it has not ended, but stands still at a
    step that failed.
    """
    if not asks:  # else what is new since it was read goes to who follows it
        telemetry.read_rest()
    log.poll()
    page, view = telemetry.page(), telemetry.view
    record, crash = (
        _read(files.exit, ExitRecord),
        _read(files.failure if asks else files.crash, CrashReport),
    )
    memory_map = read_first_map(files.dumps)
    evidence = Evidence(
        exit=record,
        unit=unit if record is None else None,
        crash=crash,
        log=log.findings(),
        fault=_fault(files.fault),
        stacks=_stacks(files.fault, record),
        dump=_dump(memory_map, cpu_limit),
        memory=_findings(files, memory_map, page, view),
        no_room=found_no_room(record, launched=view.launched),
        refused=view.refused,
        finished=finished(record, view),
        subject=_subject(files, crash, view),
        sliceable=view.sliceable,
        validated=view.validated,
        drained=view.drained,
        steps_done=_steps_done(page, view),
        stop_requested=record is not None and record.asked_to_stop,
        limited=cpu_limit is not None,
        cgroup_oom_kills=_most(oom_kills, None if record is None else record.oom_kills),
        script_exit_code=view.exit_code,
        script_exit_message=view.exit_message,
        non_finite=view.non_finite,
        snapshot_bytes=_newest_bytes(snapshots[0]),
    )
    return Exited(
        evidence=evidence,
        last_step=None if page is None else page.step,
        snapshot_step=newest_step(*snapshots),
        idle_seconds=idle_seconds(record, page, view),
    )


def _dump(memory_map: MemoryMap | None, cpu_limit: int | None) -> MemoryFigures | None:
    """Its figures, with the limit where it is ours: TensorFlow's log tells that, too, but
    not of a script that lets it log nothing."""
    if memory_map is None:
        return None
    of_gpu = "GPU" in memory_map.allocator
    return figures_of(memory_map, limit_bytes=None if of_gpu else cpu_limit)


def idle_seconds(
    record: ExitRecord | None, page: Page | None, view: AttemptView
) -> float:
    """How long it had made no step when it ended; 0 where it may have trained unseen, in a
    loop that nobody counts or in no call of ``fit``, and where it was not to train."""
    trained = view.in_fit or view.in_own_loop
    if page is None or not trained or view.refused is not None:
        return 0.0
    began = page.progress_ns
    if not any(page.step_counts) and record is not None and record.started_ns:
        began = max(record.started_ns, view.launched_ns or 0)
    ended = page.heartbeat_ns if record is None else record.ended_ns
    if not began or ended is None:
        return 0.0
    return max(ended - began, 0) / 1e9


def found_no_room(record: ExitRecord | None, *, launched: bool) -> bool:
    """Whether the training process ended before the script, for want of room.

    By its exit status alone, which needs none; that of a script means nothing.
    """
    return not launched and record is not None and record.exit_code == EXIT_NO_ROOM


def _subject(
    files: AttemptPaths, crash: CrashReport | None, view: AttemptView
) -> OomSubject:
    """What memory was asked for at the end, if it was memory: by the exception, by the
    stack of a fatal signal, or by where training was."""
    told = None if crash is None else named_subject(crash.memory)
    if told is None and crash is None:
        told = subject_in_stack(_fault_text(files.fault), in_fit=view.in_fit)
    if told is not None or view.in_fit:
        return told or OomSubject.STEP
    return OomSubject.OWN_STEP if view.in_own_loop else OomSubject.OUTSIDE


MOST_STACK_BYTES = 256 * 1024


def _fault_text(path: Path) -> str:
    """What faulthandler wrote, up to a bound; empty where there is nothing."""
    try:
        with open_regular(path) as file:
            return file.read(MOST_STACK_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _stacks(path: Path, record: ExitRecord | None) -> str:
    """Those of its crash: a worker that it forked writes to the same file."""
    native = record is None or signal_of(record) in NATIVE
    return stacks_of_crash(_fault_text(path)) if native else ""


def _most(*counts: int | None) -> int | None:
    """The largest that is known."""
    return max((count for count in counts if count is not None), default=None)


def _findings(
    files: AttemptPaths,
    memory_map: MemoryMap | None,
    page: Page | None,
    view: AttemptView,
) -> OomFindings:
    """Who held what, as far as the files tell."""
    needs = view.needs
    runs = view.in_fit and needs is not None and needs.fit == view.fit
    answer = _read(files.memory_answer, MemoryAnswer)
    jit = None if page is None else page.jit
    return OomFindings(
        memory_map=memory_map,
        answer=answer,
        between_steps_bytes=None if page is None else page.memory_in_use_bytes,
        jit=None if jit is None else bool(jit),
        needs=needs if runs else None,
    )


def _newest_bytes(durable: Path | None) -> int | None:
    """What the newest snapshot on disk takes."""
    found = None if durable is None else snapshot_directories(durable)
    manifest = read_manifest(found[0]) if found else None
    return None if manifest is None else manifest.tensors_bytes


Record = TypeVar("Record", CrashReport, ExitRecord, MemoryAnswer)


def _read(path: Path, kind: type[Record]) -> Record | None:
    value = read_json(path)
    return None if value is None else kind.from_json(value)


def _fault(path: Path) -> LogFindings:
    try:
        return scan_file(path)
    except OSError:
        return NO_FINDINGS


def finished(record: ExitRecord | None, view: AttemptView) -> bool:
    """Whether the script came to its end.

    It says so itself, or it left with 0 outside of ``fit``. Left with 0 in the middle
    of a supervised ``fit`` (``os._exit(0)``, say) is no end that anybody wanted.
    """
    if record is None or record.exit_code != 0:
        return False
    return view.exit_code == 0 or not view.in_fit


def _steps_done(page: Page | None, view: AttemptView) -> int | None:
    """Steps of this attempt; None: it never said."""
    if page is None or page.step is None:
        return None if view.first_step is None else 1
    return max(page.step - (view.restored_step or 0), 0)
