"""The file of the ledger: one SQLite connection, its transactions, its schema.

Foreground runs of several jobs share a state directory, so several processes write to
one ledger, seldom and little. That is what a rollback journal is for; WAL's gain is
concurrency nobody needs here, and SQLite before 3.51.3 can damage a WAL that two
connections reset at once. ``synchronous=EXTRA`` (sqlite.org/pragma.html): what was recorded
survives power loss; FULL leaves the journal's removal to the directory's next sync.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from supervisor.host.ledger.migrations import MIGRATIONS

BUSY_SECONDS = 10.0
"""How long a write waits for another process's."""
CACHE_KIB = 256
"""Of pages in our memory, for a daemon's lifetime; the kernel keeps the file's as well.
SQLite's own default is 2,000 KiB."""

MAX_COPY_BYTES = 256 * 1024 * 1024
"""A larger ledger is not copied into memory."""

_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
WAY_OUT = (
    "; put a copy of `trainwarden ledger backup` in its place, or move it away to begin "
    "with an empty one"
)

T = TypeVar("T")


class LedgerError(Exception):
    """The ledger cannot be used; the message is for a person."""

    def __init__(self, message: str, *, busy: bool = False) -> None:
        """``busy``: another process writes to it, for longer than is waited for."""
        super().__init__(message)
        self.busy = busy


class LedgerFile:
    """One connection to the ledger of a state directory."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open ``path``, creating or migrating it unless ``read_only``.

        Raises:
            LedgerError: it cannot be opened, or a newer version has written it.
        """
        self.path = path
        mode = "ro" if read_only else "rwc"
        with self._explained():
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA foreign_keys=ON")
            self._connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            if not read_only:
                self._connection.execute("PRAGMA synchronous=EXTRA")
            self._migrate(read_only=read_only)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            way = WAY_OUT if code in _DAMAGED else ""
            message = f"the ledger {self.path} cannot be used: {error}{way}"
            raise LedgerError(message, busy=code == sqlite3.SQLITE_BUSY) from error

    def _in_transaction(self) -> bool:
        return self._connection.in_transaction

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All or nothing; inside of another it is a part of that. Raises LedgerError."""
        if self._in_transaction():
            yield self._connection
            return
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _version(self) -> int:
        row = self._connection.execute("PRAGMA user_version").fetchone()
        return int(row[0])

    def _migrate(self, *, read_only: bool) -> None:
        version = self._version()
        if version > len(MIGRATIONS):
            message = (
                f"the ledger {self.path} was written by a newer version of trainwarden "
                f"(schema {version}, this one knows {len(MIGRATIONS)}): upgrade again"
            )
            raise LedgerError(message)
        if version == len(MIGRATIONS):
            return
        if read_only:
            self._read_a_copy()
        with self.transaction() as connection:
            for script in MIGRATIONS[self._version() :]:  # another may have been first
                for statement in filter(str.strip, script.split(";")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")

    def _read_a_copy(self) -> None:
        """An older file is read as it will be after its migration, and stays as it is."""
        copy = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        copy.row_factory = sqlite3.Row
        self._connection.backup(copy)
        self._connection.close()
        self._connection = copy

    def backup(self, target: Path) -> None:
        """Copy the ledger, whole and consistent, while it is in use.

        Raises:
            LedgerError: it could not be written; ``target`` is then not there.
        """
        partial = target.with_name(f".{target.name}.partial")
        partial.unlink(missing_ok=True)
        try:
            partial.touch(0o600, exist_ok=False)  # SQLite would blame the ledger
            with (
                self._explained(),
                contextlib.closing(sqlite3.connect(partial)) as copy,
            ):
                self._copy_to(copy, target)
            partial.rename(target)
        except OSError as error:
            message = f"the backup {target} cannot be written: {error.strerror}"
            raise LedgerError(message) from error
        finally:
            partial.unlink(missing_ok=True)

    def _copy_to(self, copy: sqlite3.Connection, target: Path) -> None:
        try:
            self._connection.backup(copy)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                raise
            message = f"the backup {target} cannot be written: the disk is full"
            raise LedgerError(message) from error

    def copied(self) -> bytes:
        """The file as it is now, whole and consistent, made at once in memory.

        Raises:
            LedgerError: it cannot be read, or is larger than ``MAX_COPY_BYTES``.
        """
        with self._explained():
            (size,) = self._connection.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()
            if size <= MAX_COPY_BYTES:
                return self._connection.serialize()
        message = f"the ledger {self.path} has {size} bytes: copy it with --state-dir"
        raise LedgerError(message)

    def rows(
        self, make: Callable[[sqlite3.Row], T], query: str, *values: object
    ) -> list[T]:
        """What ``query`` finds, each row made by ``make``. Raises LedgerError."""
        with self._explained():
            return [make(row) for row in self._connection.execute(query, values)]
