"""All dashboards, and what no dashboard shows."""

from grafana.boards.box_board import BOX_BOARD
from grafana.boards.fleet_board import FLEET
from grafana.boards.gpu_board import GPU_BOARD
from grafana.boards.memory_board import MEMORY_BOARD
from grafana.boards.run_board import RUN_BOARD

BOARDS = (FLEET, BOX_BOARD, RUN_BOARD, MEMORY_BOARD, GPU_BOARD)

SHOWN_NOWHERE: dict[str, str] = {}
"""Metrics on no dashboard, and why."""


def panel_id(uid: str, title: str) -> int:
    """The id of a panel. Raises KeyError: there is none of that title."""
    return {board.uid: board for board in BOARDS}[uid].panel_id(title)
