"""What is drawn from tables stands in the repository as the tables say now."""

import pytest

from tests.support.generated import DRAWN, ROOT, Drawn, WrittenFile


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda one: one.path)
def test_the_file_says_what_the_table_says(drawn: Drawn | WrittenFile) -> None:
    """After a change of a table: ``make generated``. Names, units, labels and help of
    metrics are what dashboards and alerts of other people stand on."""
    assert (ROOT / drawn.path).read_text() == drawn.renewed()
