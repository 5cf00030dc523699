"""``HOST:PORT`` in and out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", Address("127.0.0.1", 9464)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:9464", Address("::1", 9464)),
        (":9464", Address("127.0.0.1", 9464)),
        (" box-7.lan:80 ", Address("box-7.lan", 80)),
    ],
)
def test_what_people_write(text: str, address: Address) -> None:
    """Names, IPv4, IPv6 in brackets; without a host it is loopback."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "9464", "localhost", "::1:9464", "a:b", "a:65536", "a:-1", "a b:1"]
)
def test_what_is_refused(text: str) -> None:
    """Anything else is refused with an example of what to write."""
    with pytest.raises(ValueError, match=r"expected HOST:PORT such as 127\.0\.0\.1"):
        parse_address(text)


@given(
    st.sampled_from(["127.0.0.1", "0.0.0.0", "::", "fe80::1", "gpu-box"]),  # noqa: S104  # only parsed
    st.integers(0, 65535),
)
def test_round_trip(host: str, port: int) -> None:
    """What an address prints parses to the same address."""
    address = Address(host, port)
    assert parse_address(str(address)) == address
