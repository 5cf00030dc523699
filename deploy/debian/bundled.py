"""Who holds the rights in what the package brings along, for debian/copyright."""

import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path


def license_of(one: Distribution) -> str:
    """As its authors say it, shortly."""
    said = one.metadata.get_all("License-Expression") or one.metadata.get_all("License")
    classified = [
        line.rpartition(" :: ")[2]
        for line in one.metadata.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    short = [line for line in said or () if line and "\n" not in line]
    return (short or classified or ["see the files named below"])[0]


def paragraphs(site: Path) -> Iterator[str]:
    """One for each distribution but our own."""
    for where in sorted(site.glob("*.dist-info"), key=lambda path: path.name.lower()):
        one = Distribution.at(where)
        if one.name == "trainwarden":
            continue
        author = one.metadata.get("Author-email") or one.metadata.get("Author")
        texts = [
            f"/{path.relative_to(site.parents[5])}"
            for path in sorted(where.rglob("*"))
            if path.is_file()
            and path.name.upper().startswith(
                ("LICENSE", "LICENCE", "COPYING", "NOTICE")
            )
        ]
        yield "\n".join(
            [
                f"{one.name} {one.version}: {license_of(one)}",
                f"  by {author or 'its authors'}",
                *(f"  {text}" for text in texts),
            ]
        )


if __name__ == "__main__":
    for paragraph in paragraphs(Path(sys.argv[1])):
        sys.stdout.write(f"\n{paragraph}\n")
