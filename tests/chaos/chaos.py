"""``make chaos``: every fault there is, with the cause, the remedy and the end it has to
have. Prints the matrix; ends with 1 if a row does not hold.

``python -m tests.chaos.chaos [--fast] [--only NAME …] [--jobs 2] [--list]``
"""

# ruff: noqa: T201  # printing is the job

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.rows import ChaosRow
from tests.chaos.table import TABLE
from tests.chaos.trial import ChaosResult, ChaosTrial, References

WIDTHS = (18, 46, 9, 6)


def mark(result: ChaosResult) -> str:
    """One word for a result."""
    if result.skipped:
        return "skipped"
    if result.row.pending:
        return "now holds" if result.holds else "pending"
    return "holds" if result.holds else "FAILS"


def line(result: ChaosResult) -> str:
    """One row of the matrix, with what is wrong below it."""
    row = result.row
    cells = (row.name, row.what, mark(result), f"{result.seconds:.0f} s")
    text = " ".join(
        f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)
    )
    below = [result.skipped] if result.skipped else result.problems
    if row.pending and not result.skipped:
        below = [row.pending, *below]
    return "\n".join([f"{text} {result.seen}", *(f"    {one}" for one in below)])


def chosen(names: list[str], *, fast: bool) -> list[ChaosRow]:
    """The rows to run. Raises SystemExit for a name that is none."""
    known = {row.name: row for row in TABLE}
    strange = [name for name in names if name not in known]
    if strange:
        sys.exit(f"no such row: {', '.join(strange)}; --list shows them")
    rows = [known[name] for name in names] or list(TABLE)
    return [row for row in rows if row.fast or not fast]


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=str(__doc__))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fast", action="store_true", help="what make test runs")
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--verbose", action="store_true", help="what the command said")
    return parser.parse_args()


def main() -> int:
    """Run the rows and print the matrix; the exit code."""
    options = parse()
    rows = chosen(options.only, fast=options.fast)
    if options.list:
        print("\n".join(f"{row.name:20} {row.what}" for row in rows))
        return 0
    marks: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        base = Path(directory)
        references = References(base / "undisturbed")
        trials = [ChaosTrial(row, base / row.name, references) for row in rows]
        with ThreadPoolExecutor(max_workers=options.jobs) as pool:
            for result in pool.map(ChaosTrial.judge, trials):
                marks[mark(result)] += 1
                print(line(result), flush=True)
                if options.verbose and not result.holds:
                    print(result.output, flush=True)
    listed = ", ".join(f"{count} {name}" for name, count in sorted(marks.items()))
    print(f"\n{len(rows)} rows: {listed}")
    if marks["now holds"]:
        print("rows that now hold are no longer pending: take the mark off them")
    return 1 if marks["FAILS"] or marks["now holds"] else 0


if __name__ == "__main__":
    sys.exit(main())
