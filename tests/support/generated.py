"""Text of the repository that is drawn from tables: ``make generated`` writes it anew."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics import parser

from grafana.boards.building import as_json
from grafana.boards.every_board import BOARDS, panel_id
from grafana.rules.rendering import alerts_file, recording_file, tests_file
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.lifecycle.table import diagram
from supervisor.core.metrics.catalog import as_markdown
from supervisor.host.exporter.exposition import ExpositionEncoder, MetricsSnapshot
from tests.support.metrics import DIGITS, MACHINE
from tests.support.references import advisories_page, causes_page, commands_page

ROOT = Path(__file__).parents[2]

parse_openmetrics = cast(
    "Callable[[str], Iterable[Family]]",
    parser.text_string_to_metric_families,  # pyright: ignore[reportUnknownMemberType]  # has no types
)


def encoded(*statuses: JobStatus, openmetrics: bool) -> bytes:
    """A scrape of ``statuses`` on the machine that has everything."""
    scene = MetricsSnapshot(statuses, MACHINE)
    return ExpositionEncoder(openmetrics=openmetrics).encode(scene)


def openmetrics(*statuses: JobStatus) -> list[Family]:
    """What an OpenMetrics scrape of ``statuses`` says."""
    return list(parse_openmetrics(encoded(*statuses, openmetrics=True).decode()))


def described(families: list[Family]) -> Iterator[str]:
    """Name, type, unit, labels and help of each family, one line each."""
    for one in families:
        labels = sorted({label for point in one.samples for label in point.labels})
        yield (
            f"{one.name} | {one.type} | {one.unit or '-'} "
            f"| {', '.join(labels)} | {one.documentation}"
        )


@dataclass(frozen=True, slots=True)
class Drawn:
    """A part of a file, between two markers, and what is to stand there."""

    path: str
    marker: str
    text: Callable[[], str]

    def renewed(self) -> str:
        """The whole file as it should be. Raises ValueError: a marker is missing."""
        begin, end = f"<!-- {self.marker} -->\n", f"<!-- /{self.marker} -->\n"
        before, found, rest = (ROOT / self.path).read_text().partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found and found_end):
            message = f"{self.path} has no {begin.strip()} ... {end.strip()}"
            raise ValueError(message)
        return before + begin + self.text().strip() + "\n" + end + after


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that is written as a whole."""

    path: str
    text: Callable[[], str]

    def renewed(self) -> str:
        """The whole file as it should be."""
        return self.text()


DRAWN: tuple[Drawn | WrittenFile, ...] = (
    WrittenFile("deploy/prometheus/recording.yml", recording_file),
    WrittenFile("deploy/prometheus/alerts.yml", lambda: alerts_file(panel_id)),
    WrittenFile("deploy/prometheus/alerts_test.yml", lambda: tests_file(panel_id)),
    *(
        WrittenFile(
            f"grafana/dashboards/{board.uid.removeprefix('trainwarden-')}.json",
            partial(as_json, board),
        )
        for board in BOARDS
    ),
    Drawn(
        "docs/crashes.md", "diagram", lambda: f"```mermaid\n{diagram().strip()}\n```"
    ),
    WrittenFile("docs/commands.md", commands_page),
    WrittenFile("docs/causes.md", causes_page),
    WrittenFile("docs/advisories.md", advisories_page),
    Drawn("deploy/prometheus/metrics.md", "metrics", as_markdown),
    Drawn(
        "tests/unit/host/exporter/metrics_golden.txt",
        "families",
        lambda: "\n".join(described(openmetrics(DIGITS))),
    ),
)


if __name__ == "__main__":
    for one in DRAWN:
        (ROOT / one.path).write_text(one.renewed())
