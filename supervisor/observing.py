"""Composition of what watches the machine, and of ``/metrics``, around a run."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from supervisor.core.spec import Metrics, Spec
from supervisor.host.board import Board
from supervisor.host.http import Tls, serve
from supervisor.host.observer import Observer, default_places


def tls_of(metrics: Metrics) -> Tls | None:
    """How ``/metrics`` is served; None: in the clear."""
    if metrics.certificate is None or metrics.key is None:
        return None
    authority = metrics.client_ca
    return Tls(
        certificate=Path(metrics.certificate),
        key=Path(metrics.key),
        client_ca=None if authority is None else Path(authority),
    )


@contextmanager
def observing(spec: Spec, state: Path) -> Generator[Observer]:
    """Watch the machine while a run of ``spec`` goes on; serve what is seen if asked.

    Raises:
        ServeError: the address or the certificate cannot be used.
    """
    metrics = spec.metrics
    memory = spec.snapshots.memory
    with ExitStack() as stack:
        board = None if metrics.listen is None else Board()
        if board is not None and metrics.listen is not None:
            tls = tls_of(metrics)
            stack.enter_context(serve(metrics.listen, board.read, tls=tls))
        observer = Observer(
            places=default_places(state, None if memory is None else Path(memory)),
            gpus=spec.gpus,
            board=board,
        )
        observer.start()
        stack.callback(observer.close)
        yield observer
