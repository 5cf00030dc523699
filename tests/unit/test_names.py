"""Names of modules and classes, and the size of rooms: each name is there once, and who
looks for a thing need not look through a hall (docs/architecture.md)."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = ("supervisor", "trainers", "grafana", "docs", "tests")
SCRIPTS = ("tests/certify/scripts", "trainers/reference")
"""As people write them: names recur there."""
MOST_MODULES = 16
ONE_A_COMMAND = "supervisor/cli/commands"
ONE_A_BACKEND = {"SupervisedEpochIterator"}
"""What the protocol of backends asks of each under one name."""


def modules(tops: tuple[str, ...] = WRITTEN) -> list[Path]:
    """All of ours, but for scripts; relative to the repository."""
    found = (
        path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py")
    )
    return [path for path in found if not str(path).startswith(SCRIPTS)]


def test_a_class_name_is_there_once() -> None:
    """Those of a module's top level, tests included."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path))
    assert len(places) > 500
    twice = {name: at for name, at in places.items() if len(at) > 1}
    assert set(twice) == ONE_A_BACKEND, twice


def test_a_module_name_is_there_once() -> None:
    """In what ships; a test, or a bench, may be named after the module that it is about."""
    names = Counter(
        path.name
        for path in modules(("supervisor", "trainers"))
        if path.name != "__init__.py"
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_no_room_is_a_hall() -> None:
    """About a dozen modules a folder; a command each is a list, and reads as one."""
    rooms = Counter(
        str(path.parent)
        for path in modules(("supervisor", "trainers"))
        if path.name != "__init__.py"
    )
    del rooms[ONE_A_COMMAND]
    assert {room: size for room, size in rooms.items() if size > MOST_MODULES} == {}
