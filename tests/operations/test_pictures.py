"""The pictures of the dashboards: one of each, and drawn by what the board says."""

from pathlib import Path

import pytest
from PIL import Image

from grafana.boards.board import Board, Kind, Query
from grafana.boards.every_board import BOARDS
from tests.support.pictures import CHOSEN, PICTURES, drawn, saved, written
from tests.support.prometheus import Result

LABELS = {"instance": "127.0.0.1:9464", "run": "digits", "gpu": "GPU-1"}


def canned(query: Query, kind: Kind) -> list[Result]:
    """An answer to anything."""
    if kind in {Kind.STAT, Kind.TABLE}:
        return [{"metric": LABELS, "value": [1.8e9, "1"]}]
    points = [[1.8e9 + place, str(place)] for place in range(9)]
    return [{"metric": LABELS | {"query": query.expr}, "values": points}]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_each_is_in_the_documents(board: Board, root: Path) -> None:
    """And is linked from where Grafana is explained."""
    path = PICTURES / f"{board.uid.removeprefix('trainwarden-')}.png"
    with Image.open(path) as image:
        assert image.width > 1000
    assert board.uid in CHOSEN
    assert f"pictures/{path.name}" in (root / "deploy" / "README.md").read_text()


def test_a_board_is_drawn_as_it_is_arranged(tmp_path: Path) -> None:
    """A panel where the board has it, with an answer or a sentence why there is none."""
    board = BOARDS[0]
    figure = drawn(board, canned, "")
    assert len(figure.axes) >= len(board.panels)
    saved(figure, tmp_path / "full.png")
    empty = drawn(board, lambda _query, _kind: [], "")
    assert len(empty.axes) == len(board.panels)
    assert (tmp_path / "full.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "percentunit", "50 %"),
        (0.012, "s", "12 ms"),
        (90.0, "s", "90 s"),
        (7200.0, "s", "2 h"),
        (3 * 2**30, "bytes", "3 GiB"),
        (2048.0, "Bps", "2 KiB/s"),
        (1.755e9, "hertz", "1.75 GHz"),
        (float("nan"), "short", "NaN"),
        (1234.0, "short", "1234"),
    ],
)
def test_values_have_their_units(value: float, unit: str, text: str) -> None:
    """As Grafana would write them, nearly."""
    assert written(value, unit) == text
