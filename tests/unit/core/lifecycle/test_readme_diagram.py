"""The README's state diagram is drawn from the transition table."""

from pathlib import Path

from supervisor.core.lifecycle.table import diagram

README = Path(__file__).parents[4] / "README.md"
BEGIN, END = "<!-- diagram -->\n", "<!-- /diagram -->\n"


def test_the_readme_shows_the_table() -> None:
    """Between its two markers the README holds what the table draws, no more.

    After a change of the table: put there what ``diagram()`` prints.
    """
    _, _, rest = README.read_text().partition(BEGIN)
    drawn, end, _ = rest.partition(END)
    assert end
    assert drawn == f"```mermaid\n{diagram().strip()}\n```\n"
