"""The figures of ``memory``, each with the moment that it is of."""

import pytest

from supervisor.cli.commands.memory_command import figure_lines
from supervisor.core.memory.figures import MemoryFigures
from supervisor.host.memory.memory_report import MemoryReport

MIB = 2**20


@pytest.mark.parametrize(
    ("live", "source", "moment"),
    [
        (True, "map", "now, between steps"),
        (False, "map", "between steps"),
        (False, "oom", "as an allocation failed"),
    ],
)
def test_what_is_in_use_is_no_peak(*, live: bool, source: str, moment: str) -> None:
    """The status line tells the peak of a step: here both stand, and say what they are."""
    figures = MemoryFigures(in_use_bytes=67 * MIB, peak_bytes=89 * MIB)
    report = MemoryReport(
        attempt=1,
        live=live,
        step=3,
        source=source,
        figures=figures,
        largest_allocatable_bytes=None,
        memory_map=None,
        answer=None,
    )
    in_use, peak = figure_lines(report)
    assert in_use.strip() == f"in use: 67 MiB ({moment})"
    assert peak.strip() == "step peak: 89 MiB (the most within a step)"
