"""Private modules of Keras and TensorFlow are imported in ``trainers/backends`` alone.

Private attributes are ruff's matter (SLF001 is off for that folder only).
"""

import ast
from pathlib import Path

TRAINERS = Path(__file__).parents[4] / "trainers"
PRIVATE = ("keras.src", "tensorflow.python")
ELSEWHERE = ("backends", "reference")


def test_private_modules_have_one_home() -> None:
    """What may change with every release of theirs stands in one folder."""
    found = [
        f"{path.relative_to(TRAINERS)}: {name}"
        for path in sorted(TRAINERS.rglob("*.py"))
        if path.relative_to(TRAINERS).parts[0] not in ELSEWHERE
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if name.startswith(PRIVATE)
    ]
    assert found == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
