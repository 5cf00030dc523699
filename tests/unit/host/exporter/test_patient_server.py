"""Metrics that are served as soon as their address is free."""

import socket
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest

from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.metrics_server import MetricsServer, ServeError, Tls
from supervisor.host.exporter.patient_server import PatientServer
from tests.support.boxes import until


def healthy(address: Address) -> bool:
    """Whether metrics are served there."""
    connection = HTTPConnection(address.host, address.port, timeout=10)
    try:
        connection.request("GET", "/-/healthy")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_a_free_address_is_served_at_once() -> None:
    """Nothing is said, and no thread waits; after the end the address is free."""
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = Address("127.0.0.1", held.getsockname()[1])
    serve = partial(MetricsServer, address, ExpositionCache().read)
    with PatientServer(serve, said.append):
        assert healthy(address)
    assert said == []
    socket.create_server(("127.0.0.1", address.port)).close()


def test_a_taken_address_is_waited_for() -> None:
    """It is said once who is in the way, and once when it is served."""
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = Address("127.0.0.1", held.getsockname()[1])
        serve = partial(MetricsServer, address, ExpositionCache().read)
        waiting = PatientServer(serve, said.append, retry_seconds=0.05)
        (first,) = said
        assert f"cannot serve metrics on {address}: Address already in use" in first
        assert "Jobs are looked after without" in first
    with waiting:
        until(lambda: len(said) == 2)
        assert healthy(address)
    assert said[1] == "metrics are served now"
    assert not healthy(address)


def test_waiting_ends_with_the_server() -> None:
    """Whoever closes it waits for nobody."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = Address("127.0.0.1", held.getsockname()[1])
        serve = partial(MetricsServer, address, ExpositionCache().read)
        PatientServer(serve, lambda _: None, retry_seconds=3600.0).close()
    assert not healthy(address)


def test_a_certificate_is_not_waited_for() -> None:
    """What is wrong with the configuration stays wrong."""
    tls = Tls(certificate=Path("/nowhere"), key=Path("/nowhere"))
    address = Address("127.0.0.1", 0)
    serve = partial(MetricsServer, address, ExpositionCache().read, tls=tls)
    with pytest.raises(ServeError, match="cannot use the certificate"):
        PatientServer(serve, lambda _: None)
