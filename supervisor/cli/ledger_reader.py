"""The ledger of a state directory, opened to be read: what commands show without a daemon."""

from collections.abc import Generator
from contextlib import closing, contextmanager

from supervisor.cli.options import fail
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.wire.paths import StatePaths


@contextmanager
def reading(paths: StatePaths) -> Generator[Ledger | None]:
    """The ledger, read only; None where nothing ever ran."""
    if not paths.root.is_dir():
        fail(f"there is no state directory {paths.root}; nothing ran there yet")
    if not paths.ledger.exists():
        yield None
        return
    try:
        with closing(Ledger(paths.ledger, read_only=True)) as ledger:
            yield ledger
    except LedgerError as error:
        fail(str(error), exit_code=1)
