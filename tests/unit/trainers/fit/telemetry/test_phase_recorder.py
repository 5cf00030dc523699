"""Each phase of an epoch is told with what was in use before it, where that is news."""

from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak
from trainers.backends.memory.allocator_figures import MemoryMark
from trainers.fit.telemetry.phase_recorder import (
    PhaseRecorder,
    epochs_until_validation,
)

LIMIT = 1000


class Marks:
    """An allocator that tells what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.now: MemoryMark | None = None

    def say(self, kind: str, **fields: Any) -> None:
        """A record."""
        self.told.append((kind, fields))

    def mark(self) -> MemoryMark | None:
        """What is in use."""
        return self.now

    def hold(self, in_use: int, peak: int, most_between: int = 0) -> None:
        """From now on."""
        self.now = MemoryMark(
            in_use=in_use, peak=peak, most_between=most_between, limit=LIMIT
        )


def epoch(
    recorder: PhaseRecorder, marks: Marks, *, base: int, validation: int, grows: int = 0
) -> None:
    """One of a step that needs 50, and a validation, both beyond ``base``."""
    marks.hold(base, 300)
    recorder.epoch_begins()
    marks.hold(base + 5, 300)
    recorder.stepped(1, lambda: 0)
    recorder.stepped(2, lambda: 0)
    marks.hold(base + 1, 300, most_between=base + 20)
    recorder.ends(PeakPhase.STEPS)
    recorder.begins(PeakPhase.CALLBACKS)
    recorder.begins(PeakPhase.VALIDATION)
    marks.hold(base + grows, max(base + validation, 300))
    recorder.ends(PeakPhase.VALIDATION)
    recorder.begins(PeakPhase.CALLBACKS)
    recorder.ends(PeakPhase.CALLBACKS)


def test_each_phase_is_told_with_what_lies_between_steps() -> None:
    """The most of it: what is read ahead while steps are made is no need of others."""
    marks = Marks()
    epoch(PhaseRecorder(marks.say, marks.mark), marks, base=100, validation=400)
    kinds = [kind for kind, _ in marks.told]
    assert kinds == [RecordKind.EPOCH_MEMORY, *[RecordKind.PHASE_PEAK] * 3]
    began = EpochMemory(step=1, in_use_bytes=100, validation_epochs=0)
    assert marks.told[0][1] == began.to_json()
    assert [PhasePeak.from_json(fields) for _, fields in marks.told[1:]] == [
        PhasePeak(
            phase=phase,
            between_bytes=120,
            before_bytes=before,
            peak_bytes=high,
            limit_bytes=LIMIT,
        )
        for phase, before, high in [
            ("steps", 300, 300),
            ("validation", 300, 500),
            ("callbacks", 500, 500),
        ]
    ]


def test_a_training_that_settles_tells_nothing_more() -> None:
    """Each epoch is like the one before; what grows is told."""
    marks = Marks()
    recorder = PhaseRecorder(marks.say, marks.mark)
    for _ in range(9):
        epoch(recorder, marks, base=100, validation=150)
    known = len(marks.told)
    assert known == 4
    epoch(recorder, marks, base=101, validation=150)
    assert len(marks.told) == known
    epoch(recorder, marks, base=110, validation=150)
    assert len(marks.told) == 2 * known


def test_a_phase_that_another_cuts_short_is_not_told() -> None:
    """What lies between the last step and the validation is of none."""
    marks = Marks()
    recorder = PhaseRecorder(marks.say, marks.mark)
    marks.hold(100, 300)
    recorder.begins(PeakPhase.CALLBACKS)
    recorder.begins(PeakPhase.VALIDATION)
    recorder.ends(PeakPhase.CALLBACKS)
    recorder.ends(PeakPhase.CALLBACKS)
    assert marks.told == []


def test_nothing_is_told_where_nothing_tells() -> None:
    """No allocator that keeps figures, or no reading of it yet."""
    marks = Marks()
    recorder = PhaseRecorder(marks.say, marks.mark)
    recorder.epoch_begins()
    recorder.stepped(1, lambda: 0)
    recorder.ends(PeakPhase.STEPS)
    marks.hold(100, 300)
    recorder.begins(PeakPhase.VALIDATION)
    marks.now = None
    recorder.ends(PeakPhase.VALIDATION)
    recorder.epoch_begins()
    marks.hold(100, 300)
    recorder.epoch_begins()
    marks.now = None
    recorder.stepped(2, lambda: 0)
    assert marks.told == []


@pytest.mark.parametrize(
    ("every", "epoch", "ahead"),
    [
        (1, 0, 0),
        (1, 9, 0),
        (3, 0, 2),
        (3, 2, 0),
        (3, 8, 0),
        (3, 9, None),
        (0, 0, 0),
        ([2, 5], 0, 1),
        ([2, 5], 4, 0),
        ([2, 5], 5, None),
        ([2, 50], 5, None),
        ("often", 0, None),
        (None, 0, None),
    ],
)
def test_when_the_next_validation_is(
    every: object, epoch: int, ahead: int | None
) -> None:
    """As Keras has it: after so many epochs, or after those of a list; of ten."""
    assert epochs_until_validation(every, epoch=epoch, epochs=10) == ahead
