"""The wire: what one side writes the other reads, and hostile files hurt nobody."""

import os
import struct
import threading
import time
from dataclasses import MISSING, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.wire.event_file import EventReader, EventWriter, RecordKind, parse_line
from supervisor.wire.files import read_json, write_atomically, write_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.page import (
    PAGE_BYTES,
    Page,
    PageReader,
    PageWriter,
    Phase,
    parse,
    read_page,
)
from supervisor.wire.records.end_records import CrashReport, ExitRecord
from supervisor.wire.snapshots.manifest import Manifest


def test_a_page_comes_back(tmp_path: Path) -> None:
    """Known fields keep their values and unknown ones stay unknown."""
    writer = PageWriter(tmp_path / "page")
    assert read_page(tmp_path / "page") == Page()
    writer.set(pid=7, step=2**62, loss=0.5, phase=Phase.TRAINING)
    writer.set(step=2**62 + 1)
    page = read_page(tmp_path / "page")
    assert page == Page(pid=7, step=2**62 + 1, loss=0.5, phase=Phase.TRAINING)
    assert (tmp_path / "page").stat().st_blocks * 512 >= PAGE_BYTES


def test_a_step_is_shown_with_its_time(tmp_path: Path) -> None:
    """By the writer of what changes with each step, beside the one of all else."""
    writer = PageWriter(tmp_path / "page")
    stepped = writer.step_writer()
    writer.set(pid=7, step_counts=tuple(range(12)))
    before = time.monotonic_ns()
    stepped(5, 2, 40)
    writer.set(loss=0.5)
    page = read_page(tmp_path / "page")
    assert page is not None
    assert page.progress_ns is not None
    assert before <= page.progress_ns <= time.monotonic_ns()
    whole = Page(
        pid=7, step=5, step_in_epoch=2, samples=40, loss=0.5,
        step_counts=tuple(range(12)), progress_ns=page.progress_ns,
    )  # fmt: skip
    assert page == whole


@given(
    st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
)
def test_every_value_survives(step: int | None, loss: float | None) -> None:
    """Encoding loses nothing of 64-bit integers and doubles."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "page"
        PageWriter(path).set(step=step, loss=loss)
        assert read_page(path) == Page(step=step, loss=loss)


def test_a_reader_never_sees_half_a_page(tmp_path: Path) -> None:
    """While a writer writes, every reading is one that was written whole."""
    writer = PageWriter(tmp_path / "page")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            writer.set(step=number, samples=number, loss=float(number))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        readings = [read_page(tmp_path / "page") for _ in range(2000)]
    finally:
        stop.set()
        thread.join()
    whole = [page for page in readings if page is not None and page.step is not None]
    assert whole
    assert all(page.step == page.samples == page.loss for page in whole)


@given(st.binary(max_size=PAGE_BYTES))
def test_hostile_pages(content: bytes) -> None:
    """Foreign, short and half-written pages are no pages."""
    assert parse(content) is None
    odd = struct.pack("<8sQ", b"TWPAGE\0\3", 3)
    assert parse(odd + bytes(PAGE_BYTES)) is None


def test_no_page(tmp_path: Path) -> None:
    """Before the attempt has said anything there is nothing to read."""
    assert read_page(tmp_path / "page") is None
    (tmp_path / "page").write_bytes(b"x" * PAGE_BYTES)
    assert read_page(tmp_path / "page") is None


def test_files_that_are_kept_open(tmp_path: Path) -> None:
    """Whoever reads again and again finds what came later, also of what was removed;
    a link is never followed, and what was given back is opened anew."""
    path = tmp_path / "page"
    reader = PageReader(path)
    path.symlink_to(tmp_path / "other")
    PageWriter(tmp_path / "other")
    assert reader.read() is None
    path.unlink()
    writer = PageWriter(path)
    assert reader.read() == Page()
    path.unlink()
    writer.set(step=3)
    assert reader.read() == Page(step=3)
    reader.close()
    assert reader.read() is None
    PageWriter(path)
    assert reader.read() == Page()


def test_a_descriptor_that_is_no_good_any_more(tmp_path: Path) -> None:
    """As of a file that its server has forgotten: it is opened anew."""
    page, events = PageWriter(tmp_path / "page"), EventWriter(tmp_path / "events")
    reader, poller = PageReader(tmp_path / "page"), EventReader(tmp_path / "events")
    page.set(step=1)
    events.append(RecordKind.NOTICE, sentence="x")
    assert reader.read() == Page(step=1)
    assert len(poller.poll()) == 1
    events.append(RecordKind.NOTICE, sentence="y")
    for held in (reader, poller):
        write_only = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
        descriptor = held._file.descriptor()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        os.dup2(write_only, descriptor)
        os.close(write_only)
    assert reader.read() is None
    (tmp_path / "other").write_bytes(bytes(4096))
    assert poller.poll() == []
    assert reader.read() == Page(step=1)
    assert len(poller.poll()) == 1
    reader.close()
    poller.close()


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Who forgets to give a file back leaves none behind."""
    PageWriter(tmp_path / "page")
    EventWriter(tmp_path / "e").append(RecordKind.FIRST_STEP, step=1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        assert read_page(tmp_path / "page") is not None
        assert PageReader(tmp_path / "page").read() is not None
        assert len(EventReader(tmp_path / "e").poll()) == 1
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_events_come_back_in_order(tmp_path: Path) -> None:
    """A reader gets each record once, whole lines only."""
    writer, reader = EventWriter(tmp_path / "e"), EventReader(tmp_path / "e")
    assert reader.poll() == []
    writer.append(RecordKind.FIRST_STEP, step=1)
    writer.append(RecordKind.SNAPSHOT, step=2, path=tmp_path)
    with (tmp_path / "e").open("ab") as file:
        file.write(b'{"kind": "half')
    first, second = reader.poll()
    assert (first.kind, first.fields) == (RecordKind.FIRST_STEP, {"step": 1})
    assert second.fields["path"] == str(tmp_path)
    assert reader.poll() == []
    with (tmp_path / "e").open("ab") as file:
        file.write(b'", "ns": 1}\nrubbish\n[]\n{"kind": 1, "ns": 1}\n\xff\n')
    assert [record.kind for record in reader.poll()] == ["half"]
    assert reader.rejected == 4


def test_a_line_without_end_is_skipped(tmp_path: Path) -> None:
    """Megabytes without a line break neither stall the reader nor fill its memory."""
    path = tmp_path / "e"
    path.write_bytes(b"x" * (3 * 2**20))
    reader = EventReader(path)
    assert reader.poll() == []
    EventWriter(path).append(RecordKind.NOTICE, sentence="later")
    with path.open("ab") as file:
        file.write(b"\n")
    EventWriter(path).append(RecordKind.NOTICE, sentence="and well")
    found = reader.poll() + reader.poll()
    assert [record.fields["sentence"] for record in found][-1:] == ["and well"]


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_hostile_lines(line: bytes) -> None:
    """Whatever a line holds, it is a record or nothing."""
    record = parse_line(line)
    assert record is None or isinstance(record.kind, str)
    assert parse_line(b"[" * 100_000) is None
    assert parse_line(b'"' + b"x" * 2**20 + b'"') is None


def test_a_full_disk_loses_the_record_not_the_training() -> None:
    """Appending to a full device raises nothing."""
    EventWriter(Path("/dev/full")).append(RecordKind.NOTICE, sentence="x")


def test_records_of_another_shape_are_none() -> None:
    """A crash report or exit record with a field missing or wrong is not believed."""
    report = CrashReport(
        exception="E", message="m", traceback="t", steps_done=None, in_fit=True
    )
    assert CrashReport.from_json(report.to_json()) == report
    assert CrashReport.from_json({**report.to_json(), "in_fit": "yes"}) is None
    assert CrashReport.from_json({**report.to_json(), "steps_done": 10**400}) is None
    assert ExitRecord.from_json({"pid": 1}) is None


def test_what_a_version_before_did_not_know_is_as_usual() -> None:
    """Its supervisor goes on beside newer modules, where it is upgraded under a run."""
    of_kind: dict[str, Any] = {"str": "x", "int": 1, "float": 1.0, "bool": True}
    value = {
        one.name: of_kind.get(getattr(one.type, "__name__", ""))
        for one in fields(Directive)
        if one.default is MISSING
    }
    found = Directive.from_json({**value, "args": ["a"], "variables": {}})
    assert found is not None
    assert (found.args, found.prove) == (("a",), False)


def test_directive_and_manifest_need_every_field() -> None:
    """What has no default cannot be guessed at."""
    assert Directive.from_json({}) is None
    assert Manifest.from_json({}) is None
    assert Directive.read(Path("/nowhere")) is None


def test_atomic_files(tmp_path: Path) -> None:
    """A failed write leaves the old file and no temporary one."""
    path = tmp_path / "f"
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}
    target = tmp_path / "directory"
    target.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(target, b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["directory", "f"]


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff", b"[" * 200_000])
def test_what_is_no_json_object(tmp_path: Path, content: bytes) -> None:
    """Broken, foreign or endless JSON reads as nothing."""
    (tmp_path / "f").write_bytes(content)
    assert read_json(tmp_path / "f") is None
    assert read_json(tmp_path / "missing") is None
