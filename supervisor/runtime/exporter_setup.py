"""Composition of what watches the machine, and of ``/metrics``, around a run."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.spec import MetricsSpec
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.machine_monitor import MachineMonitor, default_places
from supervisor.host.exporter.metrics_server import MetricsServer, Tls
from supervisor.host.exporter.patient_server import PatientServer
from supervisor.host.process.process_tree import ProcessTree


def tls_of(metrics: MetricsSpec) -> Tls | None:
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
def observing(
    metrics: MetricsSpec,
    state: Path,
    *,
    memory: str | None,
    gpus: Sequence[int | str] | None,
    link: Path | None = None,
    kernel_log: bool = False,
    population: ProcessTree | None = None,
    say: Callable[[str], object] | None = None,
    known: Iterable[Gpu] = (),
) -> Generator[MachineMonitor]:
    """Watch the machine while runs go on in ``state``; serve what is seen if asked.

    ``memory``: where memory tiers lie. ``gpus``: those that are handed out. ``link``: the
    socket of the service that keeps the GPU probe; None: it is a child of ours.
    ``kernel_log``: whether it is a fault if that cannot be read.
    ``population``: of the machine, where others ask for it, too. ``say``: told where the
    address of the metrics cannot be had, which is then waited for; None: it is an error.
    ``known``: GPUs that were there before.

    Raises:
        ServeError: the certificate cannot be used, or the address, and nobody waits.
    """
    places = default_places(state, None if memory is None else Path(memory))
    with ExitStack() as stack:
        board = None if metrics.listen is None else ExpositionCache()
        if board is not None and metrics.listen is not None:
            serve = partial(
                MetricsServer, metrics.listen, board.read, tls=tls_of(metrics)
            )
            stack.enter_context(serve() if say is None else PatientServer(serve, say))
        observer = MachineMonitor(
            places=places,
            gpus=gpus,
            board=board,
            link=link,
            kernel_log=kernel_log,
            population=population,
            known=known,
        )
        observer.start()
        stack.callback(observer.close)
        yield observer
