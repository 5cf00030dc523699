"""The ledger of a state directory, opened to be read: what commands show without a daemon."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from supervisor.cli.options import fail
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.wire.paths import StatePaths


def nothing_ran(root: Path) -> str:
    """That there is nothing to be shown of ``root``, and what to do."""
    asked = (
        "another one is named with --state-dir, a daemon's as its configuration has it; "
        "`trainwarden run SCRIPT` begins one"
    )
    where = (
        ""
        if root.is_dir()
        else f"there is no state directory {root}; nothing ran there yet"
    )
    return f"{where or f'nothing has run in {root} yet'}: {asked}"


@contextmanager
def reading(paths: StatePaths) -> Generator[Ledger | None]:
    """The ledger, read only; None where nothing ever ran."""
    if not paths.root.is_dir():
        fail(nothing_ran(paths.root))
    if not paths.ledger.exists():
        yield None
        return
    try:
        with closing(Ledger(paths.ledger, read_only=True)) as ledger:
            yield ledger
    except LedgerError as error:
        fail(str(error), exit_code=1)
