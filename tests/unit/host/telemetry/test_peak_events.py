"""What a record of a peak tells the core."""

from supervisor.core.lifecycle.events import ProgressReported
from supervisor.host.telemetry.attempt_news import learned
from supervisor.wire.event_file import Record, RecordKind


def test_a_peak_comes_with_what_is_usual_and_of_how_many_steps() -> None:
    """Where the record says so; older ones, and those of later steps, do not."""
    known = {"slice_size": 43, "slices": 3, "peak_bytes": 230, "limit_bytes": 280}
    record = Record(
        RecordKind.PEAK, 1, {**known, "jit": False, "usual_bytes": 208, "steps": 4}
    )
    lesson = ProgressReported(slice_size=43, peak_bytes=230, limit_bytes=280, jit=False)
    assert learned(Record(RecordKind.PEAK, 1, {**known, "jit": False})) == lesson
    told = ProgressReported(
        slice_size=43, peak_bytes=230, limit_bytes=280, jit=False,
        usual_bytes=208, peak_steps=4,
    )  # fmt: skip
    assert learned(record) == told
