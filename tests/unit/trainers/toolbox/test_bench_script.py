"""The script of ``make bench-toolbox`` starts as anybody's script does."""

import sys

from tests.bench.toolbox import SCRIPT


def test_no_module_beside_it_hides_one_of_python() -> None:
    """The folder of a script is where its modules are looked up first, Python's as well."""
    beside = {path.stem for path in SCRIPT.parent.glob("*.py")}
    assert SCRIPT.stem in beside
    assert not beside & sys.stdlib_module_names
