"""``/metrics`` of a run: what was shown last, rendered and served."""

from collections.abc import Iterable

from supervisor.core.address import Address, parse_address
from supervisor.core.status import JobStatus
from supervisor.host.http import ServeError, serve
from supervisor.host.metrics import Board


class ExporterError(RuntimeError):
    """The address cannot be used; the message is one sentence."""


class Exporter:
    """Serves from its making to ``close``; not ready before the first ``publish``."""

    def __init__(self, listen: str) -> None:
        """Serve at ``listen`` (``HOST:PORT``). Raises ExporterError."""
        try:
            self._board = Board()
            self._server = serve(parse_address(listen), self._board.read)
        except ValueError as error:
            message = f"metrics.listen: {error}"
            raise ExporterError(message) from None
        except ServeError as error:
            raise ExporterError(str(error)) from error

    @property
    def address(self) -> Address:
        """Where it listens, with the real port where 0 was asked for."""
        return self._server.address

    def publish(self, statuses: Iterable[JobStatus]) -> None:
        """Show ``statuses`` from now on."""
        self._board.publish(statuses)

    def close(self) -> None:
        """Stop serving."""
        self._server.close()
