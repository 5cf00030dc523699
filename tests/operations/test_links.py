"""Documents point to files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("d*/**/*.md"))]


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_link_leads_to_a_file(document: Path) -> None:
    """Of those into the repository; a heading behind ``#`` is one of that file."""
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
            assert heading in {
                re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles
            }, target
